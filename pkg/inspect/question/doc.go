// Package question reads what users ask: the ends of a connection, and who may ask about whom. Its errors say why a question has no answer,
// and Next says what to do about them.
package question

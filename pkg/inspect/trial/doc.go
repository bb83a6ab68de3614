// Package trial says what would change if policies were others, for pods and for flows that were seen. Package policytrial
// compares; this one reads the question, and limits the answer to what its reader may know.
package trial

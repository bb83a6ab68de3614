// Package compatible has the rule by which the pods of one Network reach those of another. Who compiles rows, who makes portholes and who
// answers for names all go by it.
//
//	Networks as their owners wrote them --Set--> who reaches whom: Providers, Consumers; why not: Statuses
//
// A Network that is compatible with another is its provider, and that one its consumer: the consumer's pods reach the provider's.
// Both must want it if they are of two tenants. What must stay true: the result follows from the Networks alone, whatever the
// order in which they came, and is closed where something is not known.
package compatible

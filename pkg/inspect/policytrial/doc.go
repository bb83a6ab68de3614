// Package policytrial says what would change if policies were others: which pairs of pods, and of pods and what is outside, go
// from allowed to denied or the other way, on which ports, and what decides before and after.
//
//	objects, policies as they would be --group--> few pods of each kind --compile, twice--> rows --trace--> Outcome
//
// Verdicts are those of the rows that the controller's own code makes, before and after; nothing here knows what a rule of a
// policy means. Pods that no policy of their Networks can tell apart are one Group, so that some thousand are a few: their
// Network and namespace, the labels and the named ports that any policy asks for, and which blocks hold their addresses. Of each
// group two pods at most are compiled. Ports are taken together from one number to the next that any row about the two ends
// names.
//
// What must stay true: the outcome follows from the question alone; work is counted where it is done, and what is too much ends
// there; what it has not compared it says; a pod that who asks may not be told of is in no answer.
package policytrial

// Package process groups what Atoll's programs have in common, whatever they do.
//
//	build       the version of a program
//	daemon      parts of a program that end together, its signals, its HTTP servers
//	progress    the steps of a long operation, shown while it works
//	wake        a wake-up for whoever waits for a change
//	turns       how much is done at once, and for whom
//	child       programs that end with this process
//	connlimit   how many connections are open whose clients are not known yet
//	rlimit      limits of the process
//	gate        a proxy that judges what a client says
//	pipe        bytes both ways between two connections
//
// It has no code of its own. Packages below it import each other, and nothing else of Atoll.
package process

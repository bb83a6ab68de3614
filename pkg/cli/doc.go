// Package cli is the command line for those who run Atoll: the program atoll, which is kubectl's plugin too.
//
//	flags, arguments --> question --> package inspect --> value --> table or JSON, exit status
//
// Packages below it do what inspect does not: install (into a cluster and out of it), steps (a node is shut out), connectivity
// (paths are tried by pods), bundle (a report of a problem), ui (the page in a browser) and diagram (pictures as text).
//
// What must stay true: package inspect finds out, and this package asks and prints.
package cli

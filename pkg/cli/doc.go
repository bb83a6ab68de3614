// Package cli is the command line for those who run Atoll: the program atoll, which is kubectl's plugin too.
//
//	flags, arguments --> question --> package inspect --> value --> table or JSON, exit status
//
// What must stay true: package inspect finds out, and this package asks and prints.
package cli

// Package inspected has clusters for tests of pkg/inspect: objects, and the rows, bindings and interfaces that the controller
// makes of them. All is as it should be until a test breaks something.
//
// Golden and GoldenValue compare an answer with the file that package cli prints in its own tests. Flag -update writes these files.
package inspected

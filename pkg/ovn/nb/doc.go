// Package nb holds the rows of the OVN northbound database as plain values: the tables and columns that Atoll
// writes, how a row is named, and Facts, which say what a part of the database should hold.
//
// A row type has only the columns that we use, so that the client can work with every server that has them
// (libovsdb refuses a server that lacks a column of the model). They are generated from OVN's schema by test/rowgen, which lists
// them; so are the methods by which they copy and compare themselves, since libovsdb without these takes each row through JSON
// and reflection. The meaning of each column is that of ovn-nb(5).
//
// Some columns hold references to other rows: Logical_Switch.ports, for one. Their elements have owners of
// their own (a pod owns its place in its switch), so a Row never states such a column; a Member does, one
// element at a time. The fields exist so that the monitor can say what the database holds.
package nb

// Package flows plans how a question about flows is answered: which nodes are asked, and what of their answers the user is told.
//
//	Question, Sight --NewPlan--> Plan --Question--> nodes' agents --flows--> Plan.Tell --> api.Flow
//
// What must stay true: a flow of an earlier Network or namespace of the same name is not told. Of an end that the user may not
// see, the address alone is told.
package flows

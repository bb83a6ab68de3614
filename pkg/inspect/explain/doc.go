// Package explain follows a connection's first packet and its answer the whole way, and says in words what happens at each step
// and what stops it.
//
//	question, World (rows, objects, settings) --explainer--> Explanation --> what its reader may know --> api.ExplanationStatus
//	                                              |
//	                                          ToSend --packets, what nodes observe--> proof: is it as it was explained?
//
// It judges by the code that decides: names by visible, which atoll-dns goes by; what passes a porthole by egress, from which its
// chains are written; policies by policytrace. Differences between rows and objects are found by drift.
//
// What must stay true: objects of others are removed before anything is explained, and names of others after it (package visibility).
package explain

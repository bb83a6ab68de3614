// Package ui is the page of `atoll ui`: it shows in a browser what package inspect answers, to one user, with that user's rights.
//
//	browser --loopback, cookie, user--> guard --> page --> Source (client.Remote) --> value --> template, or elements of the graph
//
// What must stay true: the page says the words and values that the command line prints; nothing is written; no credential goes to
// the browser; whatever comes from the cluster is escaped by html/template; and without JavaScript all but the picture is there.
package ui

// Package snapshot has what answers are made from: the objects of Kubernetes and the rows of OVN's databases, as they are at one moment.
//
//	kube.Feed, lists --> Held     the cluster's objects, and which kinds could not be read
//	northbound       --> Mirror   its rows, read when somebody asks, and followed for a minute
//	both databases   --> Selector single rows
//	all of them      --> Sources  what a question is a function of
//
// What must stay true: it writes nothing, to no API server and to no database. What could not be read is named in Held.Unread, so that
// nobody takes it for absent.
package snapshot

// Package explained sets what `atoll explain` says of paths beside what real packets do, and beside what ovn-trace says of OVN's part.
//
//	seed, Stage: pods, Services, nodes, outside --Draw--> Questions --explain--> Said --+
//	                                                      | dialled by packets --> Saw -+--> Judge: what disagrees, in words
//	                                                      | ovn-trace ----------> Trace-+--> JudgeTrace
//
// A Question has two halves that share nothing: the words that are asked, and the addresses that packets are sent to, which come
// from the cluster's objects and from the pod's own look-up of a name, and never from the answer. What must stay true: an answer
// alone proves nothing, for addresses overlap. An explanation is right when who answers is a pod that it says is reached, and
// nobody else has heard the packet; when the receiver saw the client that it says; and when nobody has heard, answered or taken a
// connection of a packet that it says is stopped.
package explained

// Package between says who reaches whom among Networks that are compatible with each other, on scenes that nobody chose.
//
//	seed --Draw--> Scene: Networks, pods, Services, policies --what the cluster gave them--> World --Paths--> paths, and who may answer each
//
// World.Edges and World.Answers are an oracle. They are written from the model of Networks alone: an address is unique within its
// Network and two may have the same; whoever is compatible serves, in one direction, those whose addresses do not conflict with
// its own; what is reached is reached by the face, by the Services' addresses and, where routers are joined, by the own address;
// and policies judge the pods of their own Network. What must stay true: nothing of the product's rules is imported, and no rule
// is told twice. Policies are judged by test/policy/oracle, which has the same rule for itself. Where the documents leave open
// which of several endpoints a client is led to, it may be any of them.
package between

// Package pass orders the work of those who decide. A pass goes through the stages in their declared order, each once. A
// stage takes the keys of its queues, decides about them, and publishes by a topic what has changed of its results.
//
//	Topic --Changed(key)--> Reads: who looked at it  --> Queue of a later stage
//	                    \-> Follow: a declared index --/
//
// Who looks at few things of which there are many, such as a Service at its pods, records it in Reads. Where there are
// thousands that look, as pods do at their Network, the follower finds them by an index of its own.
//
// A key that is marked for a stage that has run already waits for the next pass. That is a mistake in the order of
// stages, and Order tells of it, so that tests can fail.
package pass

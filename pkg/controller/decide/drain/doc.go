// Package drain keeps what virtual addresses led to until a short while ago, for as long as nodes may go by it. Whoever owns
// load balancers wants them through Balancers.
//
//	where an owner's addresses lead --Leave--> its draining endpoints --> compile --Set--> its rows, with its retained backends
//	pods that its addresses have --Vanish--> those that have vanished -----^
//	                                                time passes --Elapsed--> the owner is looked at again
package drain

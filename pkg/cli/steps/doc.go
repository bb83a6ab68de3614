// Package steps shuts a node out: what has to go, in which order, and until when.
//
//	Look ──▶ Plan ──▶ Runner: list, authorities, Node and pods, certificates of others, members, chassis
//
// What must stay true: each step may be done again, so that a shut-out that was cut short goes on when it is called again. A step
// ends when the thing that it removes does not exist any more.
package steps

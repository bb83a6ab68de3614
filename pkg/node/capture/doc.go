// Package capture takes copies of the packets that cross an interface: an AF_PACKET socket, with the filter in the kernel, in the
// network namespace that the caller enters.
//
//	Spec ── Open ──▶ Socket ── Keeper.Run, one part after the other ──▶ Batch, Batch, …
//
// What must stay true: no packet is taken before the filter is there, nor of another namespace than the one that was entered;
// what the kernel had to drop is counted and told; and a capture is bounded in time, bytes and rate, and ends when nobody asks
// for more of it.
package capture

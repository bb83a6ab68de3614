// Package gate joins a client with a server through something that judges what the client says, and says itself what it does not
// let through.
//
//	client ── Judge: reads, judges, writes anew ──▶ server
//	       ◀── the server's words as they are, and refusals between its messages ──
//
// What must stay true: nothing of the client goes on but by the judge. Nothing of the server's words is kept: of them only the
// ends of messages are followed. A connection ends when nobody says anything, and when an end takes nothing of what it is sent.
package gate

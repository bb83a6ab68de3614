// Package engine brings the northbound database to what a Decider wants, and keeps it there: sessions, batches, what the
// database refuses, whose term it is, and what others changed. docs/design/engine.md tells how.
package engine

// Package existing holds the end-to-end test of a cluster that brings an OVN of its own, which others use, too: Atoll is
// installed in it as a user does it, taken away, and installed again.
package existing

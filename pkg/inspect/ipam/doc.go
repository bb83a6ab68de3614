// Package ipam says who holds which address of a Network, how much of each range is used, and what is wrong with addresses:
// leaks, duplicates, ranges that overlap.
//
// It reads what is written on those that hold addresses, and the northbound database's ports and load balancers where it is asked.
package ipam

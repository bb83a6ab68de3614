// Package topology says what Networks are made of: subnets, routers, gateways, how many pods are where, and which Networks are
// compatible. It has the words and the folding that the command line and the page have in common.
package topology

// Package matrix sends packets between the pods of Networks, and compares what becomes of them with what an explanation expects.
package matrix

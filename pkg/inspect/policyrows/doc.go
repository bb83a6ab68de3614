// Package policyrows says what the rows of policies mean: which policies isolate a pod, whose row an ACL is, and what decides, in words.
package policyrows

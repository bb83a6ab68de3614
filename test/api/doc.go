// Package api tests what dist/ gives a cluster, against a real API server: which Networks the schema admits and with
// which words it refuses the others, what the admission policies keep users from, and what RBAC lets the programs do.
package api

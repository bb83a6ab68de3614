// Package model holds the values that flow through Atoll: Networks, Namespaces and pods as the controller
// sees them, and what it decides about them.
//
// Package intake makes them from Kubernetes objects; the pure steps (alloc, compile) take and return them;
// package kube writes the decisions back. Nothing here does I/O, knows Kubernetes types or OVSDB.
//
// A value is never changed once it has been handed on: whoever needs another one makes it anew.
package model

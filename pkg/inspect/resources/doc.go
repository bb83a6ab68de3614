// Package resources is the table of what is read by GET: for each resource of the API inspect.atoll.dev, how its objects are found.
//
// Package inspectapi serves the rows, and package client asks for them, and finds the objects itself where nobody answers. So one
// more resource takes the package that finds its objects, a function here, and a row in inspectapi.Reads.
package resources

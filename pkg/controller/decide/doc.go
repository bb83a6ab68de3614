// Package decide decides what the northbound database shall hold and what is told of it. It knows neither API server nor
// database, and takes and returns values.
package decide

// Package networks decides what Networks serve: their subnets and service ranges, their routers' rows, who reaches their pods from the
// default Network, and what they report.
//
//	Take --> PlanFlats --> (pods) --> Close --> (nodes) --> Route --> Serve --> ... --> Report
//
// Other stages read a Network by Get, and hear of it by the topics.
package networks

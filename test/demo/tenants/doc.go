// Package tenants is about docs/examples/tenants: three tenants whose Networks have the same addresses. It asks each of their pods whom it
// reaches, by which address, and as whom, and compares the answers with the tables of the example's page.
//
//	pods --Observe--> Tables --Compare--> what differs
//	the page --Read--> Tables --^
//
// A pod counts as reached only when it says itself that the probe came to it, and from which address. Addresses that are drawn at
// run time, which are faces, stand in a table by the name of their pod.
package tenants

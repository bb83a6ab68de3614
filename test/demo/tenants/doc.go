// Package tenants is about docs/examples/tenants: three tenants whose Networks have the same addresses, and who of their pods reaches whom.
package tenants

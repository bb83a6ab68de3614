// Package tenants decides about Tenants: their default Networks, their deletion, what they report, and what their admins may do.
//
// In flow Tenants, namespaces, what Networks report and how many pods hold addresses; out flow a Network to make or to delete, finalizers,
// statuses and roles. It owns no rows. What must stay true: a Network that is not the Tenant's is never touched, and a Tenant does not go
// before its Networks have.
package tenants

package tenants

// Example is the directory of the example, from the root of the repository.
const Example = "docs/examples/tenants"

// Selector finds the pods of the example.
const Selector = "example=tenants"

// Networks are those of the example.
func Networks() []string {
	return []string{"acme", "acme--db", "acme--svc", "platform", "umbrella", "umbrella--db", "umbrella--svc"}
}

// Namespaces are those of the example whose pods have to be Ready.
func Namespaces() []string {
	return []string{"acme", "acme-db", "acme-svc", "platform", "umbrella", "umbrella-db", "umbrella-svc"}
}

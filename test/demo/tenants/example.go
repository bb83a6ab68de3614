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

// Page is where the tables of what is to be found stand.
const Page = Example + "/README.md"

// Want are the tables of a page: of pods, and of Services.
func Want(page string) ([]Table, error) {
	var out []Table
	for _, head := range []string{ToPods, ToServices} {
		t, err := Read(page, head)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// Compare says in which cells what was observed is not what a page says.
func Compare(got, want []Table) []string {
	var out []string
	for i := range want {
		out = append(out, got[i].Compare(want[i])...)
	}
	return out
}

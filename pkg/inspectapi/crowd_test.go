package inspectapi

import (
	"strings"
	"testing"
)

// TestServiceAccountsShareAPart: those of a namespace, whom its admin makes as he likes, count as one user. The controls are one of another namespace, and as many users.
func TestServiceAccountsShareAPart(t *testing.T) {
	t.Parallel()
	for _, users := range [][]string{
		{"system:serviceaccount:red:a", "system:serviceaccount:red:b", "system:serviceaccount:red:c", "system:serviceaccount:reds:a"},
		{"jo", "ann", "max", "system:serviceaccount:reds:a"},
	} {
		c := crowd{what: "pings", every: 4, each: 2}
		for i, user := range users {
			leave, err := c.enter(user)
			if refused := err != nil && strings.Contains(err.Error(), "you have 2 pings already"); refused != (i == 2 && user != "max") {
				t.Errorf("%s after %v: %v", user, users[:i], err)
			}
			if err == nil {
				defer leave()
			}
		}
	}
}

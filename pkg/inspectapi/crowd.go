package inspectapi

import (
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// crowd bounds how many of something there are at once, and how many one user has of them; ServiceAccounts of a namespace are one.
type crowd struct {
	// what they are, in words.
	what        string
	every, each int

	mu    sync.Mutex
	users map[string]int
	all   int
}

// enter counts one, unless there are too many; leave counts it no more.
func (c *crowd) enter(user string) (leave func(), err error) {
	user = countedAs(user)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.all >= c.every:
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("there are %d %s already, and no more at once: ask again in a moment", c.all, c.what), 1)
	case c.users[user] >= c.each:
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("you have %d %s already, and no more at once", c.users[user], c.what), 1)
	}
	if c.users == nil {
		c.users = map[string]int{}
	}
	c.all++
	c.users[user]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all--
		if c.users[user]--; c.users[user] == 0 {
			delete(c.users, user)
		}
	}, nil
}

// countedAs is who shares a user's part. The ServiceAccounts of a namespace have one together: its admin makes as many as he likes, and gives them his rights.
func countedAs(user string) string {
	const begin = "system:serviceaccount:"
	if account, is := strings.CutPrefix(user, begin); is {
		namespace, _, _ := strings.Cut(account, ":")
		return begin + namespace
	}
	return user
}

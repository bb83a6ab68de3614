package inspectapi

import (
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// crowd bounds how many of something there are at once, and how many one user has of them.
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

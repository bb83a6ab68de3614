package gate

import (
	"fmt"
	"io"
)

// Open judges nothing: it is for a connection at whose other end a gate stands.
func Open(client io.Reader, server, _ io.Writer) (refused int, err error) {
	if _, err := io.Copy(server, client); err != nil {
		return 0, fmt.Errorf("hand on what the client says: %w", err)
	}
	return 0, nil
}

// Unfollowed follows a server whose messages do not matter, since nothing is put between them.
type Unfollowed struct{}

// Follow implements Follower.
func (Unfollowed) Follow([]byte) (over int, err error) { return 0, nil }

// Between implements Follower.
func (Unfollowed) Between() bool { return true }

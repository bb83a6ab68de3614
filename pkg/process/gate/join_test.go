package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/iotest"
	"time"
)

// TestAnswersStandBetweenTheServersMessages, however these are split.
func TestAnswersStandBetweenTheServersMessages(t *testing.T) {
	t.Parallel()
	said := []byte(`{"id":1,"result":{"a":"}{\"\\"},"error":null} {"id":2,"result":["{"]}` + "\n" + `{"id":3}`)
	const own = `{"id":"own"}`
	for at := range said {
		var out bytes.Buffer
		b := &backwards{to: &out, says: &JSON{}}
		if _, err := (serverSays{b}).Write(said[:at]); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Write([]byte(own)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(serverSays{b}, iotest.OneByteReader(bytes.NewReader(said[at:]))); err != nil {
			t.Fatal(err)
		}
		d, ids := json.NewDecoder(&out), []any{}
		for {
			var m map[string]any
			err := d.Decode(&m)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("after %d bytes: %v", at, err)
			}
			ids = append(ids, m["id"])
		}
		if len(ids) != 4 || !slices.Contains(ids, any("own")) {
			t.Errorf("after %d bytes: %v", at, ids)
		}
	}
	b := &backwards{to: io.Discard, says: &JSON{depth: 1}}
	if _, err := b.Write(make([]byte, maxAnswers+1)); !errors.Is(err, errNoReader) {
		t.Errorf("answers that nobody takes: %v", err)
	}
}

// joined is a client and a server that talk through a gate, and how that ends.
func joined(ctx context.Context, bounds Bounds) (client, server net.Conn, ended <-chan error) {
	client, far := net.Pipe()
	near, server := net.Pipe()
	end := make(chan error, 1)
	go func() {
		_, err := Join(ctx, far, near, Messages(func(in Message) (on, answer Message, err error) {
			_, _, err = in.Request()
			return in, nil, err
		}), &JSON{}, bounds)
		end <- err
	}()
	return client, server, end
}

func TestJoinEnds(t *testing.T) {
	t.Parallel()
	long := Bounds{Idle: time.Minute, Stuck: time.Minute}
	gone := errors.New("gone")
	for name, c := range map[string]struct {
		bounds Bounds
		do     func(client, server net.Conn, end context.CancelCauseFunc)
		want   error
	}{
		"the client goes":  {long, func(c, _ net.Conn, _ context.CancelCauseFunc) { _ = c.Close() }, errClient},
		"the server goes":  {long, func(_, s net.Conn, _ context.CancelCauseFunc) { _ = s.Close() }, errServer},
		"somebody ends it": {long, func(_, _ net.Conn, end context.CancelCauseFunc) { end(gone) }, gone},
		"nobody says anything": {
			Bounds{Idle: 20 * time.Millisecond, Stuck: time.Minute}, func(net.Conn, net.Conn, context.CancelCauseFunc) {}, errIdle,
		},
		"the client never reads": {
			Bounds{Idle: time.Minute, Stuck: 20 * time.Millisecond},
			func(_, s net.Conn, _ context.CancelCauseFunc) { _, _ = s.Write([]byte(`{"id":1}`)) }, errStuck,
		},
		"the client says no message": {long, func(c, _ net.Conn, _ context.CancelCauseFunc) { _, _ = c.Write([]byte(`{}`)) }, ErrNoMessage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			client, server, ended := joined(ctx, c.bounds)
			c.do(client, server, end)
			select {
			case err := <-ended:
				if !errors.Is(err, c.want) {
					t.Errorf("it ends with %v, want %v", err, c.want)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("it does not end")
			}
			for _, conn := range []net.Conn{client, server} {
				if _, err := conn.Read(make([]byte, 1)); err == nil {
					t.Error("an end is still open")
				}
			}
		})
	}
}

// TestSpoken: a client is returned with its first word; one that says nothing, goes, or is not waited for any more is none.
func TestSpoken(t *testing.T) {
	t.Parallel()
	spoken := func(ctx context.Context, idle time.Duration, do func(client net.Conn)) (string, error) {
		client, far := net.Pipe()
		defer func() { _, _ = client.Close(), far.Close() }()
		go do(client)
		conn, err := Spoken(ctx, far, Bounds{Idle: idle})
		if err != nil {
			return "", err
		}
		said := make([]byte, 5)
		_, err = io.ReadFull(conn, said)
		return string(said), err
	}
	if said, err := spoken(t.Context(), time.Minute,
		func(c net.Conn) { _, _ = c.Write([]byte("he")); _, _ = c.Write([]byte("llo")) }); err != nil || said != "hello" {
		t.Errorf("it says %q, %v", said, err)
	}
	if _, err := spoken(t.Context(), 20*time.Millisecond, func(net.Conn) {}); !errors.Is(err, errIdle) {
		t.Errorf("who says nothing: %v", err)
	}
	if _, err := spoken(t.Context(), time.Minute, func(c net.Conn) { _ = c.Close() }); !errors.Is(err, errClient) {
		t.Errorf("who goes: %v", err)
	}
	ctx, end := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	if _, err := spoken(ctx, time.Minute, func(net.Conn) { end(gone) }); !errors.Is(err, gone) {
		t.Errorf("who is not waited for: %v", err)
	}
}

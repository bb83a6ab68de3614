package wait

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, other := net.Pipe()
		defer conn.Close()
		defer other.Close()
		began := time.Now()
		stop := Limit(conn, time.Second)
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a read that nobody answers: %v", err)
		}
		if took := time.Since(began); took < time.Second {
			t.Errorf("the read ends after %s", took)
		}
		stop()
		go func() {
			<-time.After(time.Hour)
			_, _ = other.Write([]byte("x"))
		}()
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Errorf("a read without a limit: %v", err)
		}
	})
}

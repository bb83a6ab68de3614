package question

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestNext: who is told that something cannot be done is told what to do.
func TestNext(t *testing.T) {
	t.Parallel()
	networks := schema.GroupResource{Group: "inspect.atoll.dev", Resource: "networks"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&AbsentError{"Network none"}, "atoll networks"},
		{&AbsentError{"pod red/none"}, "atoll pods -n red"},
		{apierrors.NewForbidden(networks, "blue", errors.New("no")), "kubectl auth can-i --list"},
		{apierrors.NewUnauthorized("no"), "kubectl auth whoami"},
		{apierrors.NewServiceUnavailable("no"), "atoll status"},
		{&url.Error{Op: "Get", URL: "http://127.0.0.1:1", Err: errors.New("connection refused")}, "kubectl cluster-info"},
		{&url.Error{Op: "Get", URL: "http://127.0.0.1:1", Err: context.DeadlineExceeded}, "a longer --timeout"},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, "kubectl cluster-info"},
		{apierrors.NewBadRequest("no"), ""},
		{errors.New("no"), ""},
	} {
		got := Next(fmt.Errorf("network: %w", c.err))
		if !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%v: next is %q, want %q", c.err, got, c.want)
		}
	}
}

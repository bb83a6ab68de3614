package question

import (
	"context"
	"errors"
	"net"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Next says what to do about an error that a question ended with; empty where nothing is known that helps.
func Next(err error) string {
	if absent, ok := errors.AsType[*AbsentError](err); ok {
		if pod, is := strings.CutPrefix(absent.Object, "pod "); is {
			namespace, _, _ := strings.Cut(pod, "/")
			return "atoll pods -n " + namespace
		}
		return "atoll networks"
	}
	if _, ok := errors.AsType[*apierrors.StatusError](err); ok {
		switch {
		case apierrors.IsForbidden(err):
			return "kubectl auth can-i --list says what you may, and docs/cli.md which role a command needs"
		case apierrors.IsUnauthorized(err):
			return "kubectl auth whoami: the API server does not know who you are"
		case apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err), apierrors.IsTimeout(err),
			apierrors.IsServerTimeout(err):
			return "atoll status"
		}
	}
	switch _, network := errors.AsType[net.Error](err); {
	case errors.Is(err, context.Canceled):
	case errors.Is(err, context.DeadlineExceeded):
		return "atoll status, or a longer --timeout"
	case network:
		return "kubectl cluster-info: is it the right kubeconfig, and does the API server answer?"
	}
	return ""
}

//go:build integration

package agent

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/node/capture"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
)

// heard are the packets of a pod's port 7777 that are told in one part, while do sends some.
func (a *Agent) heard(t *testing.T, pod nodeapi.Pod, do func()) (texts string, err error) {
	t.Helper()
	q := captureOf(pod)
	err = a.inquiry().Capture(t.Context(), q, func(line nodeapi.CaptureLine) error {
		switch {
		case line.Begun:
			do()
		case line.Update != nil:
			for _, r := range line.Update.Packets {
				texts += string(r.Data[42:]) + " "
			}
		}
		return nil
	})
	return strings.TrimSpace(texts), err
}

func captureOf(pod nodeapi.Pod) nodeapi.CaptureQuestion {
	return nodeapi.CaptureQuestion{
		User: "jo", Pod: pod, Part: capture.Part{ID: uuid.NewString(), Time: 300 * time.Millisecond, Last: true},
		Spec: capture.Spec{Interface: "eth0", Direction: capture.Both, SnapLength: 1500, Filter: capture.Filter{Ports: []uint16{7777}}},
	}
}

// says has a pod send a datagram to another.
func (p *testPod) says(t *testing.T, to *testPod, text string) {
	t.Helper()
	must(t, p.inside(func() error {
		conn, err := net.Dial("udp4", net.JoinHostPort(to.address(), "7777"))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		_, err = conn.Write([]byte(text))
		return err
	}))
}

// TestCapturesAreOfThePodAskedFor: only packets of the pod with the UID that was asked for are told; of a pod that has gone, was
// made anew, or is another's namesake, there is an error. What holds it is looked at with the check of the namespace taken out:
// then another's packets appear.
func TestCapturesAreOfThePodAskedFor(t *testing.T) {
	_, a, one, two := newPair(t)
	a.pods.setSynced()
	// They know each other's MAC addresses then.
	must(t, talk(t, one, two))
	both := func() { one.says(t, two, "of-one"); two.says(t, one, "of-two") }
	got, err := a.heard(t, one.asked(), func() { one.says(t, two, "to-two") })
	if err != nil || got != "to-two" {
		t.Errorf("%v: of the sender is told %q", err, got)
	}
	if got, err := a.heard(t, two.asked(), both); err != nil || !strings.Contains(got, "of-one") || !strings.Contains(got, "of-two") {
		t.Errorf("%v: of the receiver is told %q", err, got)
	}
	refused := func(what string, pod nodeapi.Pod, says string) {
		t.Helper()
		got, err := a.heard(t, pod, func() { t.Errorf("%s: it begins", what) })
		if r, ok := errors.AsType[*nodeapi.RefusedError](err); !ok || !strings.Contains(r.What, says) || got != "" {
			t.Errorf("%s: %v, %q", what, err, got)
		}
	}
	stranger := one.asked()
	stranger.UID = uuid.NewString()
	refused("a UID of nobody", stranger, "made anew")
	stranger.UID = two.asked().UID
	refused("the UID of another pod", stranger, "made anew")

	// Where the pod's namespace was, on the path that its link names, is that of another pod with the same addresses.
	path := two.request.Netns
	namesake := newPod(t, a, "three", 6)
	_, err = a.Add(t.Context(), namesake.request)
	must(t, err)
	must(t, unix.Mount(namesake.request.Netns, path, "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(path, unix.MNT_DETACH)) })
	refused("a pod in whose place another's namespace is", two.asked(), "has gone, or is being made")
	// The control: without the check of whose namespace it is, the other's packets are told.
	var socket *capture.Socket
	must(t, ns.WithNetNSPath(path, func(ns.NetNS) error {
		var err error
		socket, err = capture.Open(captureOf(two.asked()).Spec, func(f func() error) error { return f() })
		return err
	}))
	defer func() { _ = socket.Close() }()
	namesake.says(t, one, "of-three")
	records, err := socket.Batch(time.Now().Add(5 * time.Second))
	if err != nil || len(records) == 0 || !strings.HasSuffix(string(records[0].Data), "of-three") {
		t.Errorf("the control: %v, %d packets", err, len(records))
	}

	// The pod is made anew under its name.
	before := one.asked()
	again := newPod(t, a, "one", 7)
	refused("the pod before", before, "made anew")
	refused("the pod that is being made", again.asked(), "no interface of Atoll's")
}

// TestCapturesEndWithTheirPod: while it goes on the pod is looked for, and a part of one that has gone is refused.
func TestCapturesEndWithTheirPod(t *testing.T) {
	_, a, one, _ := newPair(t)
	a.pods.setSynced()
	i := a.inquiry()
	q := captureOf(one.asked())
	q.Part.Time, q.Part.Last = time.Millisecond, false
	var end *capture.Outcome
	keep := func(line nodeapi.CaptureLine) error {
		if line.Outcome != nil {
			end = line.Outcome
		}
		return nil
	}
	must(t, i.Capture(t.Context(), q, keep))
	if end == nil || !end.More {
		t.Fatalf("the first part ends with %+v", end)
	}
	q.Part.Number, q.Part.Time = 1, 10*time.Second
	began := time.Now()
	must(t, i.Capture(t.Context(), q, func(line nodeapi.CaptureLine) error {
		if line.Begun {
			newPod(t, a, "one", 7)
		}
		return keep(line)
	}))
	if end.More || !strings.Contains(end.Why, "made anew") || time.Since(began) > 5*time.Second {
		t.Errorf("when its pod is made anew it ends with %+v after %s", end, time.Since(began))
	}
	q.Part.Number = 2
	if err := i.Capture(t.Context(), q, keep); err == nil || !strings.Contains(err.Error(), "made anew") {
		t.Errorf("a part of a pod that has gone: %v", err)
	}
}

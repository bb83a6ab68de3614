package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/lab"
	"github.com/atoll-net/atoll/test/ovn"
)

// chassisName is the node whose ovn-controller runs; the other nodes are names only.
const chassisName = "chassis"

// startChassis starts the node's daemons; the southbound database has been filled by northd before.
func startChassis(ctx context.Context, dir, southbound string) (*ovn.Chassis, error) {
	dir = filepath.Join(dir, chassisName)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	return ovn.StartChassis(ctx, ovn.ChassisOptions{
		Dir: dir, Name: chassisName, Southbound: southbound, Datapath: ovn.UserspaceDatapath,
	})
}

// bind is how long ovn-controller needs for the first pod of a Network on its node: from when the pod's interface is
// there until the flows for it are, while northd has done its part before. The pod goes again.
func (s *scale) bind(ctx context.Context, network string) (float64, error) {
	p := lab.Pod{Key: model.PodKey{Namespace: network, Name: "bound"}, Node: chassisName}
	if err := s.CreatePod(ctx, p); err != nil {
		return 0, fmt.Errorf("create pod: %w", err)
	}
	if err := s.Ports.Await(ctx, []string{p.Port()}, s.Ports.Seen, s.Controller.Done()); err != nil {
		return 0, err
	}
	object, err := s.Kube.CoreV1().Pods(p.Key.Namespace).Get(ctx, p.Key.Name, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("read pod: %w", err)
	}
	if _, err := s.sync(ctx); err != nil {
		return 0, err
	}
	const port = "bound"
	start := time.Now()
	if _, err := s.chassis.VSCtl(ctx, "--no-wait", "add-port", "br-int", port, "--", "set", "Interface", port, "type=internal",
		fmt.Sprintf("external_ids:iface-id=%q", p.Port()), "external_ids:iface-id-ver="+string(object.UID)); err != nil {
		return 0, err
	}
	if _, err := s.chassis.VSCtl(ctx, "wait-until", "Interface", port, "external_ids:ovn-installed=true"); err != nil {
		return 0, err
	}
	took := time.Since(start)
	_, err = s.chassis.VSCtl(ctx, "del-port", "br-int", port)
	if err := errors.Join(err, s.DeletePod(ctx, p.Key)); err != nil {
		return 0, err
	}
	return took.Seconds(), s.Ports.Await(ctx, []string{p.Port()}, s.Ports.Gone, s.Controller.Done())
}

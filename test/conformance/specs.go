package main

import (
	"fmt"
	"regexp"
	"strings"
)

// selection chooses specs: those whose name holds all of its words.
type selection []string

func (s selection) has(name string) bool {
	for _, words := range s {
		if !strings.Contains(name, words) {
			return false
		}
	}
	return true
}

// lists are what can be run. Each selection must choose something: upstream renames its specs now and then, and one that
// is not run any more must not look like one that passes.
func lists() map[string][]selection {
	return map[string][]selection{
		"full": {
			{"[sig-network]", "[Conformance]"},
			// With what upstream asks of a node alone: startup probes, redirects, HTTPS hooks.
			{"[sig-node]", "Probing container", "Conformance]"},
			{"[sig-node]", "Lifecycle Hook", "Conformance]"},
		},
		// Pods that reach pods, nodes that reach pods, Services, DNS, the API, a probe of each kind that ends soon, and two policies: one
		// by an address that the API shows, and one that comes and goes.
		"short": {
			{"[sig-network] DNS should provide DNS for the cluster [Conformance]"},
			{"[sig-network] DNS should provide DNS for services [Conformance]"},
			{"[sig-network] Networking Granular Checks: Pods should function for intra-pod communication: http"},
			{"[sig-network] Networking Granular Checks: Pods should function for node-pod communication: udp"},
			{"[sig-network] Services should be able to create a functioning NodePort service"},
			{"[sig-network] Services should serve multiport endpoints from pods"},
			{"[sig-network] EndpointSlice should create Endpoints and EndpointSlices for Pods matching a Service"},
			{
				"[sig-network] Netpol NetworkPolicy between server and client should ensure an IP overlapping both IPBlock.CIDR " +
					"and IPBlock.Except is allowed",
			},
			{"[sig-network] Netpol NetworkPolicy between server and client should stop enforcing policies after they are deleted"},
			{"[sig-network] Proxy version v1 A set of valid responses are returned for both pod and service Proxy [Conformance]"},
			{"[sig-node] Probing container should be restarted with a /healthz http liveness probe"},
			{"[sig-node] Probing container with readiness probe should not be ready before initial delay and never restart"},
			{"[sig-node] Container Lifecycle Hook when create a pod with lifecycle hook should execute prestop http hook properly"},
		},
		// NetworkPolicy, with SCTP: see sctp.go.
		"netpol": {
			{"[sig-network] Netpol NetworkPolicy between server and client", "[Feature:NetworkPolicy]"},
			{"[sig-network] Netpol [LinuxOnly] NetworkPolicy between server and client using UDP", "[Feature:NetworkPolicy]"},
			{"[sig-network] Netpol [Feature:SCTPConnectivity]", "[Feature:NetworkPolicy]"},
			{"[sig-network] Netpol API"},
		},
	}
}

// choose returns the names of the list's specs that match the focus, out of all that the binary has.
func choose(all []string, list string, focus *regexp.Regexp) ([]string, error) {
	chosen := map[string]bool{}
	for _, s := range lists()[list] {
		found := false
		for _, name := range all {
			if s.has(name) {
				chosen[name] = true
				found = true
			}
		}
		if !found {
			return nil, fmt.Errorf("choose specs: none is named %q any more", []string(s))
		}
	}
	var names []string
	for _, name := range all {
		if chosen[name] && focus.MatchString(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("choose specs: none of list %s matches %q", list, focus)
	}
	return names, nil
}

// parseList reads the names of specs from what e2e.test --list-tests prints: one per line, behind the place in the source.
func parseList(printed string) []string {
	var names []string
	for line := range strings.Lines(printed) {
		place, name, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if ok && strings.Contains(place, ".go:") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// focusOn is the regular expression that chooses exactly these specs. Ginkgo matches it against the name of the suite, a
// space, and the spec's name.
func focusOn(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return " (" + strings.Join(quoted, "|") + ")$"
}

package main

import "testing"

func TestPatchCount(t *testing.T) {
	for line, want := range map[string]string{
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="PATCH",version="v1"} 5820`:                 "5820",
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="atoll.dev",resource="networks",scope="resource",subresource="status",verb="PATCH",version="v1"} 7`: "7",
		`apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 5820`:                  "",
	} {
		got := ""
		if m := patchCount.FindStringSubmatch(line); m != nil {
			got = m[2]
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

//go:build e2e

package e2e

import (
	"context"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestVersions: each program says its version, and those that run tell it in their metrics: the same one.
func TestVersions(t *testing.T) {
	t.Parallel()
	version := ""
	for _, program := range []string{"atoll", "atoll-agent", "atoll-cni", "atoll-controller", "atoll-dns", "atoll-inspect", "atoll-sandbox"} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(env.Options.Bin, program), "--version").CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
		said := regexp.MustCompile(`^(\S+) version (\S+)\n$`).FindSubmatch(out)
		if said == nil || string(said[1]) != program || version != "" && version != string(said[2]) {
			t.Errorf("%s --version says %q; the others are %s", program, out, version)
			continue
		}
		version = string(said[2])
	}
	for program, at := range map[string]struct{ place, address string }{
		"atoll_controller": {"n1", "127.0.0.1:9410"}, "atoll_agent": {"n1", "127.0.0.1:9411"}, "atoll_dns": {"n1", "127.0.0.1:9412"},
		"atoll_inspect": {"n1", "127.0.0.1:9421"},
	} {
		client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return env.DialFrom(ctx, at.place, network, address)
		}, DisableKeepAlives: true}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at.address+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatalf("%s: %v", program, err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if want := regexp.MustCompile(`(?m)^` + program + `_build_info\{[^}]*version="` + regexp.QuoteMeta(version) + `"\} 1$`); err != nil ||
			!want.Match(text) {
			t.Errorf("%s exports no %s_build_info of version %s (%v)", at.place, program, version, err)
		}
	}
}

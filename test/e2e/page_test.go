//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/sandbox"
)

// page is what `atoll ui` serves, as a browser gets it that has no script.
type page struct {
	address *url.URL
	client  *http.Client
}

// startPage runs atoll ui beside the control plane, and opens it.
func (c *suite) startPage(t *testing.T, args ...string) *page {
	t.Helper()
	cmd, err := c.Box.Command(context.WithoutCancel(t.Context()), sandbox.Central,
		append([]string{filepath.Join(c.Options.Bin, "atoll"), "ui", "--kubeconfig=" + c.Box.Kubeconfig()}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c.openPage(t, cmd)
}

// openPage runs a command that serves the page, opens what it prints, and ends it with the test.
func (c *suite) openPage(t *testing.T, cmd *exec.Cmd) *page {
	t.Helper()
	// It ends with the program that took it there.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Errorf("end atoll ui: %v", err)
		}
		_ = cmd.Wait() // that it was killed is meant
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("read what atoll ui prints: %v: %q", err, line)
	}
	at, err := url.Parse(strings.TrimSpace(strings.TrimPrefix(line, "Open ")))
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return c.DialFrom(ctx, sandbox.Central, network, address)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	p := &page{at, &http.Client{Jar: jar, Transport: transport}}
	if status, text, err := p.get(t.Context(), "/?"+at.RawQuery); err != nil || status != http.StatusOK {
		t.Fatalf("open %s: status %d, %v: %s", at, status, err, text)
	}
	return p
}

func (p *page) get(ctx context.Context, path string) (status int, text string, err error) {
	to, err := p.address.Parse(path)
	if err != nil {
		return 0, "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := p.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}

var (
	// said are the parts of a page that say what came of a question: the verdict, and how rows differ.
	said    = regexp.MustCompile(`(?s)<p class="verdict[^>]*>.*?</p>|<ul class="drift">.*?</ul>`)
	htmlTag = regexp.MustCompile(`<[^>]*>`)
)

// verdict is what the page says of a question that atoll explain is asked by these arguments.
func (p *page) verdict(ctx context.Context, ask []string) (string, error) {
	q := url.Values{"from": {ask[0]}, "to": {ask[1]}}
	for _, flag := range ask[2:] {
		key, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		q.Set(key, value)
	}
	status, text, err := p.get(ctx, "/explain?"+q.Encode())
	if err != nil {
		return "", err
	}
	verdict := html.UnescapeString(htmlTag.ReplaceAllString(strings.Join(said.FindAllString(text, -1), " "), ""))
	if verdict == "" {
		return "", fmt.Errorf("status %d without a verdict: %s", status, text)
	}
	return verdict, nil
}

// awaitSays waits until the verdict of the page has all the words; the page says why, as atoll explain does.
func (p *page) awaitSays(t *testing.T, ask []string, says ...string) {
	t.Helper()
	cluster.Eventually(t, cluster.Patience, fmt.Sprintf("the page says why, of %s", strings.Join(ask, " ")), func(ctx context.Context) error {
		verdict, err := p.verdict(ctx, ask)
		if err != nil {
			return err
		}
		for _, want := range says {
			if !strings.Contains(verdict, want) {
				return fmt.Errorf("it says %s, without %q", verdict, want)
			}
		}
		return nil
	})
}

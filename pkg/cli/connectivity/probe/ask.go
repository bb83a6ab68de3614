package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// tryWithin is how long one try may take, and tryEvery the pause after it. The first packet to a tunnel's other end can be lost,
	// and the kernel repeats a lost SYN after a second.
	tryWithin = 2 * time.Second
	tryEvery  = 200 * time.Millisecond
	// maxAnswer bounds what is read of an answer, in bytes.
	maxAnswer = 1 << 16
	// account is where a pod finds the API's certificate authority and its own token.
	account = "/var/run/secrets/kubernetes.io/serviceaccount"
)

// Ask tries all questions at once. Answers are in their order.
func Ask(ctx context.Context, questions []Question) []Answer {
	answers := make([]Answer, len(questions))
	var all sync.WaitGroup
	for i, q := range questions {
		all.Go(func() { answers[i] = ask(ctx, q) })
	}
	all.Wait()
	return answers
}

// ask tries until there is an answer or the patience is over.
func ask(ctx context.Context, q Question) (a Answer) {
	ctx, cancel := context.WithTimeout(ctx, q.Patience)
	defer cancel()
	ticker := time.NewTicker(tryEvery)
	defer ticker.Stop()
	for began := time.Now(); ; {
		started := time.Now()
		next := try(ctx, q)
		if next.Answered {
			next.Took = time.Since(started)
			return next
		}
		// What the end of ctx breaks off says nothing about the network.
		if ctx.Err() == nil || a.Error == "" && !a.Missing && len(a.Addresses) == 0 {
			a = next
		}
		select {
		case <-ctx.Done():
			a.Took = time.Since(began)
			return a
		case <-ticker.C:
		}
	}
}

// try asks once.
func try(ctx context.Context, q Question) Answer {
	ctx, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	var a Answer
	var err error
	switch q.Kind {
	case HTTP:
		a, err = tryHTTP(ctx, q.Target)
	case UDP:
		a, err = tryUDP(ctx, q.Target)
	case Connect:
		a, err = tryConnect(ctx, q.Target)
	case Name:
		a, err = tryName(ctx, q)
	case API:
		a, err = tryAPI(ctx, q.Target)
	default:
		err = fmt.Errorf("nobody knows how to ask by %q", q.Kind)
	}
	if err != nil {
		a.Answered, a.Error = false, err.Error()
	}
	return a
}

func tryHTTP(ctx context.Context, target string) (a Answer, err error) {
	text, err := get(ctx, &http.Transport{DisableKeepAlives: true}, "http://"+target+WhoPath, "")
	if err == nil {
		a.Answerer, err = parse(text)
	}
	a.Answered = err == nil
	return a, err
}

func tryUDP(ctx context.Context, target string) (a Answer, err error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "udp", target)
	if err != nil {
		return a, err
	}
	defer conn.Close()
	// A datagram may be lost: the next try sends another.
	_ = conn.SetDeadline(time.Now().Add(tryWithin / 4))
	if _, err := conn.Write([]byte("who")); err != nil {
		return a, err
	}
	buf := make([]byte, maxAnswer)
	n, err := conn.Read(buf)
	if err != nil {
		return a, err
	}
	a.Answerer, err = parse(buf[:n])
	a.Answered = err == nil
	return a, err
}

func tryConnect(ctx context.Context, target string) (a Answer, err error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		return a, err
	}
	defer conn.Close()
	if peer, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
		a.Addresses = []netip.Addr{peer.Addr().Unmap()}
	}
	a.Answered = true
	return a, nil
}

func tryName(ctx context.Context, q Question) (a Answer, err error) {
	// Go's own resolver tells a name that does not exist from a server that does not answer.
	found, err := (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, "ip", q.Target)
	if missing, ok := errors.AsType[*net.DNSError](err); ok && missing.IsNotFound {
		return Answer{Missing: true}, nil
	}
	if err != nil {
		return a, err
	}
	for _, one := range found {
		a.Addresses = append(a.Addresses, one.Unmap())
	}
	slices.SortFunc(a.Addresses, netip.Addr.Compare)
	wanted := slices.SortedFunc(slices.Values(q.Addresses), netip.Addr.Compare)
	a.Answered = len(wanted) == 0 || slices.Equal(a.Addresses, wanted)
	return a, nil
}

func tryAPI(ctx context.Context, target string) (a Answer, err error) {
	authority, err := os.ReadFile(filepath.Join(account, "ca.crt"))
	if err != nil {
		return a, err
	}
	token, err := os.ReadFile(filepath.Join(account, "token"))
	if err != nil {
		return a, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return a, errors.New("the pod's ca.crt holds no certificate")
	}
	if target == "" {
		target = net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	_, err = get(ctx, transport, "https://"+target+"/version", strings.TrimSpace(string(token)))
	a.Answered = err == nil
	return a, err
}

// get reads what a server says, and takes only its consent.
func get(ctx context.Context, transport *http.Transport, url, token string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil) //nolint:gosec // See below.
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	//nolint:gosec // Whoever may run programs in the pod says where to: that is what it is for.
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New("it answers " + response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxAnswer))
}

// parse reads who answered. Somebody who does not say so is no server of this package.
func parse(text []byte) (who Identity, err error) {
	if err := json.Unmarshal(text, &who); err != nil || who.UID == "" {
		return Identity{}, errors.New("who answers does not say who it is")
	}
	return who, nil
}

// Package scrape serves a program's metrics to others than the machine that it runs on: over TLS, and to whoever the Kubernetes
// API says may read them. Requests come in, reviews of their tokens go out.
//
// What must stay true: nothing but /metrics is served, and nothing to anybody while the API server cannot be asked.
package scrape

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/process/connlimit"
	"github.com/atoll-net/atoll/pkg/process/daemon"
)

const metricsPath = "/metrics"

const (
	// maxStrangers bounds the connections whose clients have shown no good token, maxOfOne those of one source. A stranger's
	// connection ends with the first answer, so that few are needed.
	maxStrangers, maxOfOne = 64, 16
	// maxScrapers bounds the connections of clients that have.
	maxScrapers = 64
	// idleTime is how long a scraper's connection may wait for the next request: longer than most scrape intervals.
	idleTime = 2 * time.Minute
)

// Serve serves /metrics at address until ctx ends.
func Serve(ctx context.Context, address string, metrics prometheus.Gatherer, client kubernetes.Interface) error {
	certificate, err := ownCertificate(time.Now())
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen for scrapes: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+metricsPath, promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return daemon.Serve(ctx, newServer(certificate, Guard(client, metricsPath, mux)), bounded(listener), 0)
}

// bounded bounds the connections that a listener accepts.
func bounded(l net.Listener) net.Listener {
	return (&connlimit.Strangers{Each: maxOfOne, All: maxStrangers}).Listen(l, maxScrapers)
}

func newServer(certificate tls.Certificate, guarded http.Handler) *http.Server {
	// With HTTP/2 a client could keep a connection without asking for anything, and one connection would be many.
	only := new(http.Protocols)
	only.SetHTTP1(true)
	return &http.Server{
		Handler:           guarded,
		Protocols:         only,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ConnContext:       connlimit.Context,
		ReadHeaderTimeout: daemon.HeaderTime,
		WriteTimeout:      time.Minute,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    16 << 10,
		// Strangers do not fill the log.
		ErrorLog: log.New(io.Discard, "", 0),
	}
}

// validity of a certificate: longer than any process runs.
const validity = 10 * 365 * 24 * time.Hour

// ownCertificate keeps tokens from who only listens on the network. Nobody vouches for it: it is another one with each start, as
// the kubelet's is where nobody gave it one.
func ownCertificate(now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "atoll metrics"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}, nil
}

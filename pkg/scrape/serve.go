// Package scrape serves a program's metrics to others than the machine that it runs on: over TLS, and to whoever the Kubernetes API says may read
// them. Requests come in, reviews of their tokens go out.
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
	"math/big"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/daemon"
)

const metricsPath = "/metrics"

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
	server := &http.Server{
		Handler:           Guard(client, metricsPath, mux),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: daemon.HeaderTime,
		WriteTimeout:      time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	return daemon.Serve(ctx, server, listener, 0)
}

// validity of a certificate: longer than any process runs.
const validity = 10 * 365 * 24 * time.Hour

// ownCertificate keeps tokens from who only listens on the network. Nobody vouches for it: it is another one with each start, as the kubelet's is where
// nobody gave it one.
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

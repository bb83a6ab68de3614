// Package apiserver runs a real kube-apiserver with its etcd on loopback ports, for tests and benchmarks that need an
// API server and nothing behind it: no controller manager, no scheduler, no node.
//
// In go the binaries (Options, or the environment that `make test` sets); out come client configurations. Everything
// lives in one temporary directory and in two child processes, which end with Stop, with the context, and with the
// process that started them, however it ends.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
)

// The environment that names the binaries when Options do not.
const (
	// EnvKubeBin is the directory that holds kube-apiserver and kubectl.
	EnvKubeBin = "ATOLL_KUBE_BIN"
	// EnvEtcd is the etcd program.
	EnvEtcd = "ATOLL_ETCD"
)

// readyTimeout bounds the start of the API server: about 3 s on two idle cores.
const readyTimeout = 2 * time.Minute

// Options say which binaries to run, and how.
type Options struct {
	// KubeBin is the directory that holds kube-apiserver and kubectl; empty means the environment's EnvKubeBin.
	KubeBin string
	// Etcd is the etcd program; empty means the environment's EnvEtcd.
	Etcd string
	// Args are further arguments for kube-apiserver; they come last and so override.
	Args []string
}

// Server is a running API server.
type Server struct {
	dir     string
	kubectl string
	config  *rest.Config
	etcd    *process
	api     *process
}

// Run starts an API server and returns once it is ready. It runs until Stop is called or ctx ends; Stop is needed in
// both cases, for it removes the temporary directory.
func Run(ctx context.Context, o Options) (*Server, error) {
	o, err := o.withEnvironment()
	if err != nil {
		return nil, fmt.Errorf("start API server: %w", err)
	}
	dir, err := os.MkdirTemp("", "atoll-apiserver-")
	if err != nil {
		return nil, fmt.Errorf("make directory for API server: %w", err)
	}
	s := &Server{dir: dir, kubectl: filepath.Join(o.KubeBin, "kubectl")}
	if err := s.run(ctx, o); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (o Options) withEnvironment() (Options, error) {
	if o.KubeBin == "" {
		o.KubeBin = os.Getenv(EnvKubeBin)
	}
	if o.Etcd == "" {
		o.Etcd = os.Getenv(EnvEtcd)
	}
	if o.KubeBin == "" || o.Etcd == "" {
		return o, fmt.Errorf("find binaries: set %s to the directory of kube-apiserver and kubectl, and %s to etcd (`make test` does both)",
			EnvKubeBin, EnvEtcd)
	}
	for _, path := range []string{filepath.Join(o.KubeBin, "kube-apiserver"), filepath.Join(o.KubeBin, "kubectl"), o.Etcd} {
		if _, err := os.Stat(path); err != nil {
			return o, fmt.Errorf("find binary: %w", err)
		}
	}
	return o, nil
}

func (s *Server) run(ctx context.Context, o Options) error {
	etcdPort, err := reservePort()
	if err != nil {
		return err
	}
	defer etcdPort.release()
	apiPort, err := reservePort()
	if err != nil {
		return err
	}
	defer apiPort.release()
	secrets, err := writeSecrets(s.dir)
	if err != nil {
		return err
	}

	etcdURL := "http://" + etcdPort.address()
	s.etcd, err = start(ctx, command{
		path: o.Etcd,
		log:  filepath.Join(s.dir, "etcd.log"),
		args: []string{
			"--data-dir=" + filepath.Join(s.dir, "etcd"),
			"--listen-client-urls=" + etcdURL,
			"--advertise-client-urls=" + etcdURL,
			"--listen-peer-urls=http://127.0.0.1:0",
			"--socket-reuse-port",
			"--unsafe-no-fsync",
			"--quota-backend-bytes=8589934592",
			"--log-level=warn",
		},
	})
	if err != nil {
		return err
	}
	s.api, err = start(ctx, command{
		path: filepath.Join(o.KubeBin, "kube-apiserver"),
		log:  filepath.Join(s.dir, "kube-apiserver.log"),
		args: append(apiArgs(s.dir, etcdURL, apiPort, secrets), o.Args...),
	})
	if err != nil {
		return err
	}
	s.config = &rest.Config{
		Host:        "https://" + apiPort.address(),
		BearerToken: secrets.token,
		// The server signs its certificate itself when it starts, so that it is not there yet; waitReady reads it.
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(s.dir, "certs", "apiserver.crt")},
		// The client's own limit would be what a benchmark measures.
		QPS: -1,
	}
	if err := s.waitReady(ctx); err != nil {
		return err
	}
	return writeKubeconfig(s.config, s.Kubeconfig())
}

func apiArgs(dir, etcdURL string, port *port, secrets secrets) []string {
	return []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		// It would try to publish the loopback address as an endpoint, which is refused.
		"--endpoint-reconciler-type=none",
		fmt.Sprintf("--secure-port=%d", port.number),
		"--permit-port-sharing",
		"--cert-dir=" + filepath.Join(dir, "certs"),
		"--token-auth-file=" + secrets.tokenFile,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + secrets.keyFile,
		"--service-account-signing-key-file=" + secrets.keyFile,
		"--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=RBAC",
		"--allow-privileged",
		// It dials an aggregated API at its Service's endpoints, of which tests make those that they serve. The Service's address would
		// lead out of the machine.
		"--enable-aggregator-routing",
		// No controller makes default ServiceAccounts here, without which no pod would be admitted.
		"--disable-admission-plugins=ServiceAccount",
	}
}

// waitReady asks /readyz until it says yes or the server ends.
func (s *Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		if last = s.askReady(ctx); last == nil {
			return nil
		}
		select {
		case <-s.etcd.Done():
			return s.etcd.ended()
		case <-s.api.Done():
			return s.api.ended()
		case <-ctx.Done():
			return fmt.Errorf("wait for API server: %w (last answer: %w)\n%s", context.Cause(ctx), last, s.api.logTail())
		case <-tick.C:
		}
	}
}

func (s *Server) askReady(ctx context.Context) error {
	client, err := rest.HTTPClientFor(s.config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.Host+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}

// RESTConfig is the configuration of a client that may do everything; its rate is not limited. The caller owns it.
func (s *Server) RESTConfig() *rest.Config { return rest.CopyConfig(s.config) }

// As is the configuration of a client that acts as the user, with the rights that RBAC gives it.
func (s *Server) As(user string, groups ...string) *rest.Config {
	config := s.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append([]string{"system:authenticated"}, groups...)}
	return config
}

// Kubeconfig is the path of the administrator's kubeconfig file.
func (s *Server) Kubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

// Stop ends the processes and removes everything that they left. It may be called again.
func (s *Server) Stop() error {
	for _, p := range []*process{s.api, s.etcd} {
		if p != nil {
			p.Kill()
		}
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("remove directory of API server: %w", err)
	}
	return nil
}

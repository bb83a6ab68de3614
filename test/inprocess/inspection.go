package inprocess

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/inspect/inspectapi"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// inspection serves the API inspect.atoll.dev of a cluster. It shares nothing with the controller.
type inspection struct {
	feed   *kube.Feed
	mirror *snapshot.Mirror
	config inspectapi.Config
}

// asked is whom inspection asks, and how.
type asked struct {
	Host, Token string
	CA          []byte
	// Database is the address of both of OVN's.
	Database  string
	Ill, Mute bool
}

func (a asked) config() *rest.Config {
	return &rest.Config{Host: a.Host, BearerToken: a.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: a.CA}}
}

// newInspection prepares inspection, which shows a certificate.
func newInspection(a asked, shown []tls.Certificate) (*inspection, error) {
	log := slog.New(slog.DiscardHandler)
	client, err := kubernetes.NewForConfig(a.config())
	if err != nil {
		return nil, err
	}
	feed, err := kube.NewFeed(a.config(), kube.Options{Logger: log})
	if err != nil {
		return nil, err
	}
	settings, err := settingsOfAll()
	if err != nil {
		return nil, err
	}
	databases := ovsdb.Config{Addresses: []string{a.Database}, Log: log}
	north, south := ovsdb.Asker{Config: databases, Database: ovsdb.NorthboundDatabase}, ovsdb.Asker{
		Config: databases, Database: ovsdb.SouthboundDatabase,
	}
	mirror := snapshot.NewMirror(databases)
	from := snapshot.Sources{
		Source: "inspection in process", Client: client, Held: func() (snapshot.Held, error) { return snapshot.HeldBy(feed, settings) },
		Northbound: &north, Southbound: &south, Mirror: mirror, Settings: func() (config.Settings, error) { return settings, nil },
	}
	nodes := &agents{held: feed.Held, ill: a.Ill, mute: a.Mute}
	return &inspection{feed, mirror, inspectapi.Config{
		Client: client, Sources: from, Agents: nodes.all(), FlowAgents: nodes.flows, CheckAgents: nodes.check,
		Databases: inspectapi.Databases(north, south), TLS: &tls.Config{Certificates: shown}, Log: log,
	}}, nil
}

// settingsOfAll are those of the AtollConfig, with flows.
func settingsOfAll() (config.Settings, error) {
	settings, err := config.Parse(config.Defaults())
	settings.Flows.On = true
	return settings, err
}

// serve serves at a listener until ctx ends.
func (i *inspection) serve(ctx context.Context, listener net.Listener) error {
	defer i.mirror.Close()
	var running sync.WaitGroup
	var failed [2]error
	running.Go(func() { failed[0] = i.feed.Run(ctx) })
	running.Go(func() { failed[1] = inspectapi.ServeOn(ctx, listener, i.config) })
	running.Wait()
	return errors.Join(failed[:]...)
}

// envApart has what inspection in a process of its own asks, in JSON. Its listener is file 3.
const envApart = "ATOLL_TEST_INSPECTION"

// startApart runs inspection until ctx ends in a process of its own, which is this program once more: its TestMain calls ServeApart.
func startApart(ctx context.Context, a asked, listener net.Listener) (*apart, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("inspection cannot listen at a %T", listener)
	}
	file, err := tcp.File()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	// Only the other process listens.
	if err := listener.Close(); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	out := &apart{program: exec.CommandContext(ctx, self)}
	out.program.Env, out.program.ExtraFiles, out.program.Stderr = append(os.Environ(), envApart+"="+string(text)), []*os.File{file}, os.Stderr
	if out.lives, err = out.program.StdinPipe(); err != nil {
		return nil, err
	}
	return out, out.program.Start()
}

// apart is inspection in a process of its own.
type apart struct {
	program *exec.Cmd
	// lives is closed when it is to end, and when this process ends.
	lives io.Closer
	once  sync.Once
}

// kill ends it at once, as the kernel does when it has taken more memory than its container may.
func (a *apart) kill() {
	a.once.Do(func() {
		_ = a.program.Process.Kill()
		_ = a.program.Wait()
	})
}

// ServeApart serves inspection and does not return, if another process has started this one for that.
func ServeApart() {
	text, is := os.LookupEnv(envApart)
	if !is {
		return
	}
	code := 0
	if err := serveApart([]byte(text)); err != nil {
		fmt.Fprintln(os.Stderr, "inspection in a process of its own:", err)
		code = 1
	}
	os.Exit(code) //nolint:forbidigo // in place of the package's TestMain, which may
}

func serveApart(text []byte) error {
	var a asked
	if err := json.Unmarshal(text, &a); err != nil {
		return err
	}
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	some := httptest.NewTLSServer(nil)
	shown := some.TLS.Certificates
	some.Close()
	i, err := newInspection(a, shown)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { // ends with the other process
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if err := i.serve(ctx, listener); ctx.Err() == nil {
		return err
	}
	return nil
}

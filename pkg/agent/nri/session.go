package nri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/nri/pkg/version"
	"github.com/containerd/ttrpc"
)

// registerTimeout bounds the call by which the plugin makes itself known.
const registerTimeout = 5 * time.Second

// maxNamed is how many containers a log line names.
const maxNamed = 10

// session is one connection with the runtime.
type session struct {
	*Plugin
	// pods are those that the runtime has told of, by the sandbox's ID; missed are containers that see their face.
	// Both are filled by Synchronize, whose parts come one after the other.
	pods   map[string]*api.PodSandbox
	missed []string
	// taken is the Plugin's to read and write.
	taken bool
}

// errClosed: the runtime ended the connection.
var errClosed = errors.New("the container runtime closed the connection")

// serve connects to the runtime and answers it until the connection or ctx ends. It reports whether the runtime has
// taken the plugin in; the error says why it ended, and is nil when ctx did.
//
// NRI's own stub is not used: it waits without an end for a runtime that goes away before it has configured the plugin.
func (p *Plugin) serve(ctx context.Context) (taken bool, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", p.config.Socket)
	if err != nil {
		return false, fmt.Errorf("connect to NRI: %w", err)
	}
	// Both sides call each other over the one connection.
	mux := multiplex.Multiplex(conn)
	defer mux.Close()
	listener, err := mux.Listen(multiplex.PluginServiceConn)
	if err != nil {
		return false, fmt.Errorf("listen on NRI's connection: %w", err)
	}
	runtime, err := mux.Open(multiplex.RuntimeServiceConn)
	if err != nil {
		return false, fmt.Errorf("call on NRI's connection: %w", err)
	}
	server, err := ttrpc.NewServer()
	if err != nil {
		return false, fmt.Errorf("make server for NRI: %w", err)
	}
	s := &session{Plugin: p, pods: map[string]*api.PodSandbox{}}
	p.begin(s)
	server.RegisterService(serviceName(), s.service())
	served := make(chan struct{})
	go func() {
		defer close(served)
		// It ends with the listener and has nothing else to say.
		_ = server.Serve(ctx, listener)
	}()
	client := ttrpc.NewClient(runtime)
	err = register(ctx, client)
	if err == nil && client.UserOnCloseWait(ctx) == nil {
		err = errClosed
	}
	_ = client.Close()
	_ = server.Close()
	<-served
	return p.end(s), err
}

func register(ctx context.Context, client *ttrpc.Client) error {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	_, err := api.NewRuntimeClient(client).RegisterPlugin(ctx, &api.RegisterPluginRequest{
		PluginName: pluginName, PluginIdx: pluginIndex, NRIVersion: version.GetFromBuildInfo(),
	})
	if err != nil {
		return fmt.Errorf("register with NRI: %w", err)
	}
	return nil
}

// serviceName is the name by which the runtime calls its plugins.
func serviceName() string {
	return string(api.File_pkg_api_api_proto.Services().ByName("Plugin").FullName())
}

// service is what the plugin serves. The runtime calls nothing else: it asks only for what Configure subscribes to.
func (s *session) service() *ttrpc.ServiceDesc {
	return &ttrpc.ServiceDesc{Methods: map[string]ttrpc.Method{
		"Configure":       method(s.configure),
		"Synchronize":     method(s.synchronize),
		"CreateContainer": method(s.createContainer),
		"Shutdown":        method(func(context.Context, *api.Empty) (*api.Empty, error) { return &api.Empty{}, nil }),
	}}
}

func method[Request, Response any](serve func(context.Context, *Request) (*Response, error)) ttrpc.Method {
	return func(ctx context.Context, unmarshal func(any) error) (any, error) {
		request := new(Request)
		if err := unmarshal(request); err != nil {
			return nil, err
		}
		return serve(ctx, request)
	}
}

// configure subscribes the plugin. A request that it does not answer in time goes on without it, and it stays. (A runtime whose
// NRI does not know the policy ends the connection instead: 0.12.3, of containerd 2.4.2, does not; 0.12.5 does.)
func (s *session) configure(_ context.Context, request *api.ConfigureRequest) (*api.ConfigureResponse, error) {
	var events api.EventMask
	events.Set(api.Event_CREATE_CONTAINER)
	s.log.Info("connected to NRI", "runtime", request.GetRuntimeName(), "version", request.GetRuntimeVersion())
	return &api.ConfigureResponse{
		Events:        int32(events),
		FailurePolicy: &api.FailurePolicy{KeepConnected: true},
	}, nil
}

// synchronize is told of all containers when the plugin connects. It cannot change them; it says which it has missed.
func (s *session) synchronize(_ context.Context, request *api.SynchronizeRequest) (*api.SynchronizeResponse, error) {
	for _, pod := range request.GetPods() {
		s.pods[pod.GetId()] = pod
	}
	for _, c := range request.GetContainers() {
		if pod := s.pods[c.GetPodSandboxId()]; pod != nil && s.seesFace(pod, c) {
			s.missed = append(s.missed, nameOf(pod, c))
		}
	}
	if request.GetMore() {
		return &api.SynchronizeResponse{More: true}, nil
	}
	s.metrics.missed.Set(float64(len(s.missed)))
	if len(s.missed) > 0 {
		slices.Sort(s.missed)
		s.log.Warn("containers were made while the agent was away and see their pod's face until they are restarted",
			"count", len(s.missed), "containers", strings.Join(s.missed[:min(len(s.missed), maxNamed)], " "))
	}
	s.pods, s.missed = map[string]*api.PodSandbox{}, nil
	s.Plugin.taken(s)
	return &api.SynchronizeResponse{}, nil
}

// createContainer is asked before a container is made. It returns no error, for that would keep the container from
// being made.
func (s *session) createContainer(_ context.Context, request *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
	started := time.Now()
	pod, c := request.GetPod(), request.GetContainer()
	adjust, err := s.own(pod, c)
	result := untouched
	if adjust != nil {
		result = adjusted
	}
	if err != nil {
		result = failed
		s.log.Error("a container sees its pod's face in /etc/hosts", "container", nameOf(pod, c), "error", err)
	}
	s.metrics.answered(result, time.Since(started))
	return &api.CreateContainerResponse{Adjust: adjust}, nil
}

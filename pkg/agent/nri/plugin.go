package nri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// DefaultSocket is where runtimes listen for plugins.
	DefaultSocket = api.DefaultSocketPath
	// pluginName and pluginIndex name the plugin to the runtime. The last plugin is asked after all others have made
	// their changes.
	pluginName  = "atoll"
	pluginIndex = "99"
	// retryAfter passes between two tries to reach the runtime.
	retryAfter = time.Second
)

// Config is what a Plugin needs.
type Config struct {
	// Socket is the runtime's.
	Socket string
	// KubeletDir is kubelet's directory, in which pods/<uid>/etc-hosts are the hosts files.
	KubeletDir string
	// HostsDir is where the hosts files with own addresses are put. The runtime must see it under the same name.
	HostsDir string
	// Lookup finds what is known of a pod. It must answer at once.
	Lookup func(Pod) (Known, bool)
}

// Pod is a pod as the runtime names it.
type Pod struct{ Namespace, Name, UID string }

// Known is what is known of a pod that has faces.
type Known struct {
	// UID is that of the pod's object. For a static pod the runtime has another.
	UID string
	// Pairs are the pod's faces, each with the own address that it stands for.
	Pairs []Pair
	// Elsewhere is what the pod finds elsewhere than kubelet says.
	Elsewhere Elsewhere
}

// Plugin gives containers their own addresses.
type Plugin struct {
	config  Config
	metrics *metrics
	log     *slog.Logger
	// hosts is nil where files cannot be given to containers.
	hosts *HostsDir

	mu sync.Mutex
	// connected is closed while a runtime has taken the plugin in, which it has by the session.
	connected chan struct{}
	session   *session
}

// New makes a plugin. Where hosts files cannot be given to containers it says so once, and does the rest.
func New(config Config, registry prometheus.Registerer, log *slog.Logger) (*Plugin, error) {
	p := &Plugin{config: config, log: log, connected: make(chan struct{})}
	var err error
	if p.metrics, err = newMetrics(registry, p.Connected); err != nil {
		return nil, err
	}
	if p.hosts, err = OpenHostsDir(config.HostsDir); err != nil {
		log.Error("containers keep kubelet's /etc/hosts, in which a pod's name is its face", "error", err)
	}
	return p, nil
}

// Run keeps the plugin connected to the runtime until ctx ends. A runtime that is not there, or without NRI, is waited
// for: that is logged once, and nothing else comes of it.
func (p *Plugin) Run(ctx context.Context) error {
	reported := ""
	for {
		taken, err := p.serve(ctx)
		if err != nil && ctx.Err() == nil && (taken || err.Error() != reported) {
			reported = err.Error()
			p.log.Warn("the container runtime's NRI is away: new containers see their pod's face instead of its own address", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryAfter):
		}
	}
}

// Await waits until the runtime asks about new containers, for as long as ctx lasts, and reports whether it does.
func (p *Plugin) Await(ctx context.Context) bool {
	select {
	case <-p.state():
		return true
	case <-ctx.Done():
		return false
	}
}

// Connected reports whether the runtime asks about new containers.
func (p *Plugin) Connected() bool {
	select {
	case <-p.state():
		return true
	default:
		return false
	}
}

// Offered reports whether the runtime has NRI, as far as its socket tells.
func (p *Plugin) Offered() bool {
	_, err := os.Stat(p.config.Socket)
	return err == nil
}

// state is a channel that is closed once the runtime has taken the plugin in.
func (p *Plugin) state() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.connected
}

// begin makes a session the one that counts. What an earlier one still has in hand changes no state any more.
func (p *Plugin) begin(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = s
}

// taken: the runtime has taken the plugin in by a session.
func (p *Plugin) taken(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session == s && !s.taken {
		s.taken = true
		close(p.connected)
	}
}

// end reports whether the runtime had taken the plugin in.
func (p *Plugin) end(s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = nil
	if s.taken {
		p.connected = make(chan struct{})
	}
	return s.taken
}

// Sweep removes what was made for pods that are not known any more.
func (p *Plugin) Sweep(known func(podUID string) bool) error {
	if p.hosts == nil {
		return nil
	}
	removed, err := p.hosts.Sweep(known)
	if removed > 0 {
		p.log.Debug("removed hosts files of pods that have gone", "count", removed)
	}
	return err
}

// own is what a container needs to see its pod's own addresses. With an error comes what could be done nevertheless.
func (p *Plugin) own(pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, error) {
	known, has := p.lookup(pod)
	if !has {
		return nil, nil
	}
	r := newReplacer(known.Pairs)
	hosts, err := p.ownHosts(pod, c, known)
	resolver, failed := p.ownResolver(c, known)
	environment := append(ownEnvironment(c.GetEnv(), r), known.Elsewhere.environment(c.GetEnv())...)
	return adjustment(environment, ownArguments(c.GetArgs(), r), hosts, resolver), errors.Join(err, failed)
}

func (p *Plugin) lookup(pod *api.PodSandbox) (Known, bool) {
	known, has := p.config.Lookup(Pod{Namespace: pod.GetNamespace(), Name: pod.GetName(), UID: pod.GetUid()})
	return known, has && len(known.Pairs) > 0
}

// ownHosts writes a pod's own hosts file and returns the mount of it, or nil when the container has not kubelet's.
func (p *Plugin) ownHosts(pod *api.PodSandbox, c *api.Container, known Known) (*api.Mount, error) {
	mount, has := kubeletHosts(c.GetMounts(), p.config.KubeletDir, pod.GetUid())
	switch {
	case p.hosts == nil:
		return nil, nil
	case !has:
		return nil, p.otherDir(pod, c)
	}
	content, err := readFile(mount.GetSource())
	if err != nil {
		return nil, err
	}
	file, err := p.hosts.Write(known.UID, hostsName, ownHosts(content, known.Pairs), mount.GetSource())
	if err != nil {
		return nil, err
	}
	return withSource(mount, file), nil
}

// otherDir is an error when the container has a hosts file that looks like kubelet's, and kubelet's directory is said
// to be another.
func (p *Plugin) otherDir(pod *api.PodSandbox, c *api.Container) error {
	for _, m := range c.GetMounts() {
		if dir, is := strings.CutSuffix(m.GetSource(), filepath.Join("/pods", pod.GetUid(), hostsName)); is && m.GetDestination() == hostsFile {
			return fmt.Errorf("kubelet's directory seems to be %s, and the agent was told %s", dir, p.config.KubeletDir)
		}
	}
	return nil
}

// seesFace reports whether an existing container sees its pod's face: it was made while the plugin was away.
func (p *Plugin) seesFace(pod *api.PodSandbox, c *api.Container) bool {
	known, has := p.lookup(pod)
	if !has || !isLive(c) {
		return false
	}
	r := newReplacer(known.Pairs)
	_, kubelets := kubeletHosts(c.GetMounts(), p.config.KubeletDir, pod.GetUid())
	return kubelets && p.hosts != nil || ownArguments(c.GetArgs(), r) != nil || len(ownEnvironment(c.GetEnv(), r)) > 0
}

// isLive reports whether a container runs or is about to.
func isLive(c *api.Container) bool {
	return c.GetState() == api.ContainerState_CONTAINER_CREATED || c.GetState() == api.ContainerState_CONTAINER_RUNNING
}

// nameOf is a container as people look for it.
func nameOf(pod *api.PodSandbox, c *api.Container) string {
	return fmt.Sprintf("%s/%s/%s", pod.GetNamespace(), pod.GetName(), c.GetName())
}

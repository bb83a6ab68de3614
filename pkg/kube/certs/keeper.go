package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	randv2 "math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	// sayEvery is how often a Keeper that waits says for what.
	sayEvery = 5 * time.Second
	// answerWait is how long a request is waited for before another takes its place.
	answerWait = 5 * time.Minute
	// minRenewal is how soon after one certificate the next is asked for at the earliest.
	minRenewal = 10 * time.Second
)

// KeeperConfig says which certificate to keep, and where.
type KeeperConfig struct {
	Client kubernetes.Interface
	Log    *slog.Logger
	// Signer is one of the Signer constants.
	Signer string
	// Node is the name of the node that this process is on. The token of Client has to be bound to it.
	Node string
	// Addresses are the node's, by which clients reach this process; for servers only.
	Addresses []netip.Addr
	// TrustNodes: ca.crt holds the CAs of nodes beside the central ones. The server of the southbound database needs them; nobody else
	// may.
	TrustNodes bool
	// Dir is where the files are kept (FileKey and the rest); it is made.
	Dir string
	// Life is how long the certificate is to be valid: MinLife or more, MaxLife if it is 0. The signer may give less.
	Life time.Duration
	// Changed is called after the files have changed, if it is not nil. Open vSwitch's and OVN's daemons notice by themselves.
	Changed func()
}

// Keeper keeps the certificate of one process. It is a prometheus.Collector: the end of the certificate.
type Keeper struct {
	config KeeperConfig
	ready  chan struct{}
	once   sync.Once

	mu sync.Mutex
	// have is what the files hold; nil: nothing yet.
	have *pair
	// waits says for what, since when; empty: for nothing.
	waits string
	since time.Time
}

// NewKeeper makes a Keeper; Run has it work.
func NewKeeper(c KeeperConfig) *Keeper { return &Keeper{config: c, ready: make(chan struct{})} }

// Keep is a Keeper's whole life: it keeps the files until ctx ends, and returns its error, or at once if the configuration is none.
func Keep(ctx context.Context, c KeeperConfig) error { return NewKeeper(c).Run(ctx) }

// Ready is closed once the files are there and valid.
func (k *Keeper) Ready() <-chan struct{} { return k.ready }

// Describe is prometheus.Collector's.
func (k *Keeper) Describe(to chan<- *prometheus.Desc) { to <- expiryDesc }

// Collect is prometheus.Collector's.
func (k *Keeper) Collect(to chan<- prometheus.Metric) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.have != nil {
		to <- Expiry(k.commonName(), k.have.leaf.NotAfter)
	}
}

// Healthy is an error while there is no valid certificate, and when only a quarter of its life is left since no new one comes.
func (k *Keeper) Healthy() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.have == nil {
		return fmt.Errorf("there is no certificate: it waits for %s", k.waits)
	}
	leaf := k.have.leaf
	if _, life := lifeOf(leaf); time.Until(leaf.NotAfter) < life/4 {
		return fmt.Errorf("the certificate ends at %s: it waits for %s", leaf.NotAfter.Format(time.RFC3339), k.waits)
	}
	return nil
}

func (k *Keeper) commonName() string { return k.grant().CommonName }

// grant is what it asks for, but for addresses.
func (k *Keeper) grant() Grant { return grantOf(k.config.Signer, k.config.Node) }

// check says what is wrong with it.
func (c KeeperConfig) check() error {
	if kindOf[c.Signer] == "" || c.Node == "" || c.Dir == "" || c.Client == nil || c.Log == nil {
		return errors.New("keep a certificate: signer, node, directory, client and logger are needed")
	}
	if c.Life != 0 && c.Life < MinLife {
		return fmt.Errorf("keep a certificate: a life of %s is less than %s", c.Life, MinLife)
	}
	return nil
}

// Run keeps the files until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	if err := k.config.check(); err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	k.waiting("the ConfigMap " + Namespace + "/" + ConfigMapName + ", which atoll-controller makes")
	running.Go(func() { k.say(ctx) })
	bundles := k.follow(ctx, &running)
	k.start()
	var bundle *core.ConfigMap
	select {
	case <-ctx.Done():
	case bundle = <-bundles:
	}
	retry := newBackoff()
	for ctx.Err() == nil {
		timer := time.NewTimer(k.attempt(ctx, bundle, &retry))
		select {
		case <-ctx.Done():
		case bundle = <-bundles:
		case <-timer.C:
		}
		timer.Stop()
	}
	return context.Cause(ctx)
}

// start takes up what the files hold, if it is good: a member starts with what it has while there is no API server, which may be
// on its way up itself.
func (k *Keeper) start() {
	have, err := readFiles(k.config.Dir)
	if err != nil || have.leaf.Subject.CommonName != k.commonName() || !k.fits(have) || !time.Now().Before(have.leaf.NotAfter) {
		return
	}
	k.set(have)
	k.once.Do(func() { close(k.ready) })
}

// newBackoff says how soon to try again after one failure after another.
func newBackoff() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 9, Cap: 5 * time.Minute}
}

// attempt renews the files once, and returns when to do that again: soon if it failed, which retry counts, and otherwise when the
// certificate is at half of its life.
func (k *Keeper) attempt(ctx context.Context, bundle *core.ConfigMap, retry *wait.Backoff) time.Duration {
	if err := k.renew(ctx, bundle); err != nil {
		pause := retry.Step()
		if ctx.Err() == nil {
			k.config.Log.Error("there is no new certificate", "subject", k.commonName(), "again in", pause.Round(time.Second), "error", err)
		}
		return pause
	}
	*retry = newBackoff()
	k.waiting("")
	k.once.Do(func() { close(k.ready) })
	return max(time.Until(renewal(k.have.leaf)), minRenewal)
}

// lifeOf is when a certificate was made, and for how long.
func lifeOf(leaf *x509.Certificate) (made time.Time, life time.Duration) {
	made = leaf.NotBefore.Add(skew)
	return made, leaf.NotAfter.Sub(made)
}

// renewal is when to ask anew: at half of a certificate's life, a tenth of it sooner or later, so that not all nodes come at once.
func renewal(leaf *x509.Certificate) time.Time {
	made, life := lifeOf(leaf)
	jitter := time.Duration((randv2.Float64() - 0.5) / 5 * float64(life)) //nolint:gosec // It spreads load, and hides nothing.
	return made.Add(life/2 + jitter)
}

// due says whether a certificate is old enough to be renewed.
func due(leaf *x509.Certificate, now time.Time) bool {
	made, life := lifeOf(leaf)
	return now.After(made.Add(life * 2 / 5))
}

// renew has the files as they should be now: it asks for a certificate where there is none that is good, and writes what has changed.
func (k *Keeper) renew(ctx context.Context, bundle *core.ConfigMap) error {
	own := []byte(bundle.Data[kindOf[k.config.Signer].Bundle()])
	if len(own) == 0 {
		return fmt.Errorf("the ConfigMap %s/%s has no %s: the atoll-controller is older than this", Namespace, ConfigMapName,
			kindOf[k.config.Signer].Bundle())
	}
	have := k.have
	if have == nil || !have.signedBy(own, time.Now()) || !k.fits(have) || due(have.leaf, time.Now()) {
		fresh, err := k.ask(ctx)
		if err != nil {
			return err
		}
		if !fresh.signedBy(own, time.Now()) {
			return errors.New("the certificate is not signed by the authority that is published")
		}
		have = fresh
	}
	trusted := bundle.Data[KeyCentral]
	if k.config.TrustNodes {
		trusted += bundle.Data[KeyNode]
	}
	if _, err := readCertificates([]byte(trusted)); err != nil {
		return fmt.Errorf("read ConfigMap %s: %w", ConfigMapName, err)
	}
	all := files{
		FileKey: have.private, FileCertificate: have.certificate, FileCA: []byte(trusted), FileCentralCA: []byte(bundle.Data[KeyCentral]),
	}
	if k.config.Signer == SignerInspect {
		// It asks agents.
		all[FileAgentCA] = []byte(bundle.Data[KeyAgent])
	}
	if err := writeFiles(k.config.Dir, all); err != nil {
		return fmt.Errorf("write certificate: %w", err)
	}
	k.set(have)
	if k.config.Changed != nil {
		k.config.Changed()
	}
	k.config.Log.Info("the certificate is in place", "subject", k.commonName(), "directory", k.config.Dir, "valid until", have.leaf.NotAfter)
	return nil
}

// fits says whether a certificate has the addresses and names that are wanted.
func (k *Keeper) fits(have *pair) bool {
	for _, name := range k.grant().Names {
		if !slices.Contains(have.leaf.DNSNames, name) {
			return false
		}
	}
	for _, address := range k.config.Addresses {
		if !slices.ContainsFunc(have.leaf.IPAddresses, func(ip net.IP) bool { return ip.Equal(net.IP(address.AsSlice())) }) {
			return false
		}
	}
	return true
}

// ask makes a key and a request, and waits for the answer.
func (k *Keeper) ask(ctx context.Context) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	private, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: k.commonName()}, DNSNames: k.grant().Names}
	for _, address := range k.config.Addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(address.AsSlice()))
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	request := &certificates.CertificateSigningRequest{
		ObjectMeta: meta.ObjectMeta{GenerateName: "atoll-" + k.config.Node + "-"},
		Spec: certificates.CertificateSigningRequestSpec{
			SignerName: k.config.Signer, Request: pem.EncodeToMemory(&pem.Block{Type: blockRequest, Bytes: der}),
			Usages: k.grant().usages(),
		},
	}
	if k.config.Life != 0 {
		request.Spec.ExpirationSeconds = new(int32(min(k.config.Life, MaxLife).Seconds()))
	}
	k.waiting("the API server, to take a CertificateSigningRequest")
	requests := k.config.Client.CertificatesV1().CertificateSigningRequests()
	if request, err = requests.Create(ctx, request, meta.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("ask for a certificate: %w", err)
	}
	k.waiting("the answer of the leading atoll-controller to CertificateSigningRequest " + request.Name)
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	pause := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 10, Cap: 3 * time.Second}
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the answer to CertificateSigningRequest %s: %w", request.Name, ctx.Err())
		case <-time.After(pause.Step()):
		}
		now, err := requests.Get(ctx, request.Name, meta.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("CertificateSigningRequest %s was deleted before it was answered", request.Name)
		}
		if err != nil {
			k.config.Log.Debug("the answer cannot be read", "request", request.Name, "error", err)
			continue
		}
		for _, c := range now.Status.Conditions {
			if c.Type == certificates.CertificateDenied || c.Type == certificates.CertificateFailed {
				return nil, fmt.Errorf("CertificateSigningRequest %s is refused (%s): %s", request.Name, c.Reason, c.Message)
			}
		}
		if len(now.Status.Certificate) > 0 {
			return readPair(now.Status.Certificate, private)
		}
	}
}

// follow says what the ConfigMap holds, at first and after each change; only the newest is kept for whoever is slow.
func (k *Keeper) follow(ctx context.Context, running *sync.WaitGroup) <-chan *core.ConfigMap {
	news := make(chan *core.ConfigMap, 1)
	factory := informers.NewSharedInformerFactoryWithOptions(k.config.Client, 0, informers.WithNamespace(Namespace),
		informers.WithTweakListOptions(func(o *meta.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(meta.ObjectNameField, ConfigMapName).String()
		}))
	informer := factory.Core().V1().ConfigMaps().Informer()
	var last [3]string
	tell := func(o any) {
		bundle, ok := o.(*core.ConfigMap)
		if !ok || bundle.Name != ConfigMapName || bundle.Data[KeyCentral] == "" || bundle.Data[KeyNode] == "" {
			return
		}
		now := [3]string{bundle.Data[KeyCentral], bundle.Data[KeyNode], bundle.Data[KeyAgent]}
		if now == last {
			return
		}
		last = now
		select {
		case <-news:
		default:
		}
		news <- bundle
	}
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		k.config.Log.Warn("the authorities' certificates cannot be read", "error", err)
	})
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell, UpdateFunc: func(_, o any) { tell(o) }})
	running.Go(func() { informer.RunWithContext(ctx) })
	return news
}

func (k *Keeper) set(have *pair) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.have = have
}

func (k *Keeper) waiting(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waits, k.since = what, time.Now()
}

// say tells for what it waits, while it does.
func (k *Keeper) say(ctx context.Context) {
	tick := time.NewTicker(sayEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		k.mu.Lock()
		what, since := k.waits, k.since
		k.mu.Unlock()
		if what != "" {
			k.config.Log.Info("the certificate waits", "subject", k.commonName(), "for", what, "since", time.Since(since).Round(time.Second))
		}
	}
}

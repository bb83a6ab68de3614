package certs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/atoll-net/atoll/pkg/kube/shutout"
)

const (
	// rereadEvery is how often the authorities are read: for the wish of a new CA, and for the time when there has to be one.
	rereadEvery = time.Minute
	// askTime bounds one answer of the API server.
	askTime = 30 * time.Second
	// signers is how many requests are answered at the same time: all nodes may come at once.
	signers = 4
)

// SignerConfig says how to sign.
type SignerConfig struct {
	Client kubernetes.Interface
	Log    *slog.Logger
	// Life is how long certificates are valid that ask for no less, between MinLife and MaxLife; 0 is MaxLife.
	Life time.Duration
	// Now is the time; nil means the machine's.
	Now func() time.Time
}

// Signer keeps the authorities and answers CertificateSigningRequests of its signers. One runs at a time, with whoever leads.
type Signer struct {
	config SignerConfig
	store  store
	// authorities are what store has said last. While it has said nothing, or an error, nothing is signed.
	authorities atomic.Pointer[Authorities]
	// seen is the central one, as a controller that does not sign has read it last.
	seen  atomic.Pointer[Authority]
	known chan struct{}
	once  sync.Once
	// judge is Judge; tests show what goes through without.
	judge   func(*certificates.CertificateSigningRequestSpec, *core.Node) (Grant, key, error)
	signed  *prometheus.CounterVec
	expires *prometheus.Desc
}

// NewSigner makes a signer. It is a prometheus.Collector: the end of the CAs, and how many requests were signed and refused.
func NewSigner(c SignerConfig) *Signer {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Life == 0 {
		c.Life = MaxLife
	}
	c.Life = min(max(c.Life, MinLife), MaxLife)
	return &Signer{
		config: c, store: store{c.Client, c.Now}, known: make(chan struct{}),
		judge: func(spec *certificates.CertificateSigningRequestSpec, node *core.Node) (Grant, key, error) {
			return Judge(spec, node)
		},
		signed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "atoll_certificate_requests_total",
			Help: "CertificateSigningRequests that were answered, by the signer and by what became of them: Signed, or the reason of the refusal.",
		}, []string{"signer", "result"}),
		expires: expiryDesc,
	}
}

// Describe is prometheus.Collector's.
func (s *Signer) Describe(to chan<- *prometheus.Desc) {
	to <- s.expires
	s.signed.Describe(to)
}

// Collect is prometheus.Collector's.
func (s *Signer) Collect(to chan<- prometheus.Metric) {
	s.signed.Collect(to)
	all := s.authorities.Load()
	if all == nil {
		return
	}
	for kind, authority := range *all {
		to <- Expiry(kind.Secret(), authority.Signing(s.config.Now()).Certificate.NotAfter)
	}
}

// Run signs until ctx ends. It lasts through whatever goes wrong, and says it.
func (s *Signer) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	defer s.authorities.Store(nil)
	running.Go(func() { s.reread(ctx) })
	select {
	case <-s.known:
	case <-ctx.Done():
		return
	}
	queue := newQueue()
	for signer := range kindOf {
		factory := informers.NewSharedInformerFactoryWithOptions(s.config.Client, 0, informers.WithTweakListOptions(func(o *meta.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.signerName", signer).String()
		}), informers.WithTransform(slim))
		informer := factory.Certificates().V1().CertificateSigningRequests().Informer()
		add := func(o any) {
			if request, ok := o.(*certificates.CertificateSigningRequest); ok && !answered(request) {
				queue.Add(waitingOf(request))
			}
		}
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, o any) { add(o) }})
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	for range signers {
		running.Go(func() {
			for s.next(ctx, queue) {
			}
		})
	}
	<-ctx.Done()
	queue.ShutDown()
}

// newQueue makes a queue in which nodes take turns.
func newQueue() workqueue.TypedRateLimitingInterface[waiting] {
	inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[waiting]{Queue: &turns{lines: map[string][]waiting{}}})
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[waiting](time.Second, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[waiting]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[waiting]{Queue: inner}),
		},
	)
}

// reread keeps the authorities until ctx ends.
func (s *Signer) reread(ctx context.Context) {
	for {
		err := s.refresh(ctx)
		wait := rereadEvery
		if err != nil && ctx.Err() == nil {
			s.config.Log.Error("no certificates are signed: the authorities cannot be read or written", "error", err)
			wait = 5 * time.Second
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (s *Signer) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	all, err := s.store.current(ctx)
	if err != nil {
		s.authorities.Store(nil)
		return err
	}
	s.authorities.Store(&all)
	s.once.Do(func() { close(s.known) })
	return nil
}

// next answers one request. It says whether there may be more.
func (s *Signer) next(ctx context.Context, queue workqueue.TypedRateLimitingInterface[waiting]) bool {
	request, end := queue.Get()
	if end {
		return false
	}
	defer queue.Done(request)
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if err := s.answer(ctx, request.name); err != nil {
		if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
			s.config.Log.Error("a CertificateSigningRequest waits for its answer", "request", request.name, "error", err)
		}
		queue.AddRateLimited(request)
		return true
	}
	queue.Forget(request)
	return true
}

// answer signs or refuses a request.
func (s *Signer) answer(ctx context.Context, name string) error {
	requests := s.config.Client.CertificatesV1().CertificateSigningRequests()
	request, err := requests.Get(ctx, name, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	if answered(request) {
		return nil
	}
	// They are loaded before the list of nodes that are shut out is read: an authority that is made anew because of a node does not
	// sign for that node.
	all := s.authorities.Load()
	grant, public, err := s.decide(ctx, &request.Spec)
	if refusal, ok := errors.AsType[*RefusalError](err); ok {
		s.config.Log.Warn("a certificate is refused", "request", name, "requester", request.Spec.Username, "reason", refusal.Reason, "message",
			refusal.Message)
		s.signed.WithLabelValues(request.Spec.SignerName, refusal.Reason).Inc()
		return s.refuse(ctx, request, refusal)
	}
	if err != nil {
		return err
	}
	if all == nil {
		return errors.New("the authorities are not known")
	}
	if !has(request, certificates.CertificateApproved) {
		request.Status.Conditions = append(request.Status.Conditions, condition(certificates.CertificateApproved, "OfItsNode",
			fmt.Sprintf("%s asks for %q of its own node", request.Spec.Username, grant.CommonName)))
		if request, err = requests.UpdateApproval(ctx, name, request, meta.UpdateOptions{}); err != nil {
			return fmt.Errorf("approve request: %w", err)
		}
	}
	life := s.config.Life
	if asked := request.Spec.ExpirationSeconds; asked != nil {
		life = min(life, time.Duration(*asked)*time.Second)
	}
	request.Status.Certificate, err = (*all)[kindOf[request.Spec.SignerName]].Issue(grant, public, s.config.Now(), life)
	if err != nil {
		return err
	}
	if _, err := requests.UpdateStatus(ctx, request, meta.UpdateOptions{}); err != nil {
		return fmt.Errorf("hand over certificate: %w", err)
	}
	s.config.Log.Info("a certificate is signed", "request", name, "requester", request.Spec.Username, "subject", grant.CommonName)
	s.signed.WithLabelValues(request.Spec.SignerName, "Signed").Inc()
	return nil
}

// key is a public key.
type key = any

func (s *Signer) decide(ctx context.Context, spec *certificates.CertificateSigningRequestSpec) (Grant, key, error) {
	name, err := NodeOf(spec)
	if err != nil {
		return s.judge(spec, nil)
	}
	// It is read for each request: who asks may have been listed a moment ago.
	listed, err := shutout.Read(ctx, s.config.Client)
	if err != nil {
		return Grant{}, nil, err
	}
	if since, is := listed[name]; is {
		return Grant{}, nil, refuse(reasonShutOut,
			"node %s is shut out since %s: it gets no certificate until it is admitted again (atoll node admit %[1]s)", name,
			since.Format(time.RFC3339))
	}
	node, err := s.config.Client.CoreV1().Nodes().Get(ctx, name, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return s.judge(spec, nil)
	}
	if err != nil {
		return Grant{}, nil, fmt.Errorf("read Node %s: %w", name, err)
	}
	return s.judge(spec, node)
}

// refuse tells it in the request: Denied, or Failed where somebody has approved it.
func (s *Signer) refuse(ctx context.Context, request *certificates.CertificateSigningRequest, why *RefusalError) error {
	requests := s.config.Client.CertificatesV1().CertificateSigningRequests()
	var err error
	if has(request, certificates.CertificateApproved) {
		request.Status.Conditions = append(request.Status.Conditions, condition(certificates.CertificateFailed, why.Reason, why.Message))
		_, err = requests.UpdateStatus(ctx, request, meta.UpdateOptions{})
	} else {
		request.Status.Conditions = append(request.Status.Conditions, condition(certificates.CertificateDenied, why.Reason, why.Message))
		_, err = requests.UpdateApproval(ctx, request.Name, request, meta.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("refuse request: %w", err)
	}
	return nil
}

func condition(what certificates.RequestConditionType, reason, message string) certificates.CertificateSigningRequestCondition {
	return certificates.CertificateSigningRequestCondition{Type: what, Status: core.ConditionTrue, Reason: reason, Message: message}
}

func has(request *certificates.CertificateSigningRequest, what certificates.RequestConditionType) bool {
	for _, c := range request.Status.Conditions {
		if c.Type == what {
			return true
		}
	}
	return false
}

// answered says whether nothing more will become of a request.
func answered(request *certificates.CertificateSigningRequest) bool {
	return len(request.Status.Certificate) > 0 || has(request, certificates.CertificateDenied) || has(request, certificates.CertificateFailed)
}

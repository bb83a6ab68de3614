package agent

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

const (
	// eventsPerSecond and eventsBurst bound the Events of one node: the first pods that wait are told at once, and where all
	// pods of all nodes wait, the API server has other things to do.
	eventsPerSecond, eventsBurst = 1, 20
	// eventTime bounds the writing of one.
	eventTime = 5 * time.Second
	// repeatEvent is how long a pod is not told the same reason again.
	repeatEvent = 5 * time.Minute
	// maxTold bounds what is remembered of that.
	maxTold = 4096
	// maxMessage is what the API server accepts in an Event, and maxEventName what of the pod's name the Event's has, in bytes.
	maxMessage, maxEventName = 1024, 200
)

// teller creates Warning Events on pods of this node and on Networks. It never changes an Event, so the agent only needs the
// right to create them.
type teller struct {
	node   string
	events corev1client.EventsGetter
	log    *slog.Logger

	mu     sync.Mutex
	tokens flowcontrol.PassiveRateLimiter
	told   map[told]time.Time
}

// told is which reason was told to whom.
type told struct{ uid, reason string }

// newTeller makes a teller; without events nobody is told anything.
func newTeller(node string, events corev1client.EventsGetter, log *slog.Logger) *teller {
	return &teller{
		node: node, events: events, log: log, told: map[told]time.Time{},
		tokens: flowcontrol.NewTokenBucketPassiveRateLimiter(eventsPerSecond, eventsBurst),
	}
}

// may reports whether a pod may be told a reason now, and takes note of it.
func (t *teller) may(about told, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, before := t.told[about]; before && now.Sub(last) < repeatEvent {
		return false
	}
	if !t.tokens.TryAccept() {
		return false
	}
	if len(t.told) >= maxTold {
		for old, at := range t.told {
			if now.Sub(at) >= repeatEvent {
				delete(t.told, old)
			}
		}
		if len(t.told) >= maxTold {
			clear(t.told)
		}
	}
	t.told[about] = now
	return true
}

// warn tells a pod what is wrong, unless it has been told of late, or too many have. It returns when the API server has answered.
func (t *teller) warn(ctx context.Context, key model.PodKey, uid string, p model.Problem) {
	t.tell(ctx, corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: key.Namespace, Name: key.Name, UID: types.UID(uid)}, p)
}

// warnNetwork tells whoever looks at a Network.
func (t *teller) warnNetwork(ctx context.Context, n *model.Network, p model.Problem) {
	t.tell(ctx, corev1.ObjectReference{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Network", Name: n.Name, UID: types.UID(n.UID)},
		p)
}

func (t *teller) tell(ctx context.Context, whom corev1.ObjectReference, p model.Problem) {
	now := time.Now()
	about := told{string(whom.UID), p.Reason}
	if t.events == nil || !t.may(about, now) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, eventTime)
	defer cancel()
	event := t.event(whom, p, now)
	_, err := t.events.Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
	// Another agent may have said it a moment ago.
	if err != nil && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
		t.log.Info("event not written", "of", whom.Kind, "namespace", whom.Namespace, "name", whom.Name, "reason", p.Reason, "message", p.Message,
			"error", err)
		t.mu.Lock()
		delete(t.told, about)
		t.mu.Unlock()
	}
}

func (t *teller) event(whom corev1.ObjectReference, p model.Problem, now time.Time) *corev1.Event {
	message := p.Message
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage-3], "") + "..."
	}
	hash := fnv.New64a()
	fmt.Fprint(hash, whom.UID, p.Reason, now.Unix()/int64(repeatEvent/time.Second))
	at := metav1.NewTime(now)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			// What has no namespace has its Events there.
			Namespace: cmp.Or(whom.Namespace, metav1.NamespaceDefault),
			Name:      fmt.Sprintf("%s.%x", strings.TrimRight(whom.Name[:min(len(whom.Name), maxEventName)], ".-"), hash.Sum64()),
		},
		InvolvedObject: whom,
		Type:           corev1.EventTypeWarning, Reason: p.Reason, Message: message,
		Source:         corev1.EventSource{Component: component, Host: t.node},
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
		ReportingController: component, ReportingInstance: t.node,
	}
}

// component is our name in Events.
const component = "atoll-agent"

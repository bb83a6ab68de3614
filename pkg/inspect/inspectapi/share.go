package inspectapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube/access"
	"github.com/atoll-net/atoll/pkg/process/turns"
)

const (
	// bodyTime is how long somebody may take to say what they ask, and turnTime how long they wait for a turn.
	bodyTime, turnTime = 5 * time.Second, 5 * time.Second
	// tenantsAge is how old may be what is known of who is whose.
	tenantsAge = 5 * time.Second
)

// places are those of a handler.
type places struct {
	// come are of those who have not been heard to the end, or wait for a turn; turns are of those who are answered, and work of
	// those of them whose answer takes a processor.
	come, turns, work *turns.Turns
	// bodyTime, turnTime and answerTime are the constants.
	bodyTime, turnTime, answerTime time.Duration
}

func newPlaces() places {
	return places{
		come: turns.New("questions", turns.Bounds{Every: 32, Each: 8, Kept: 8}), turns: turns.New("questions",
			turns.Bounds{Every: 16, Each: 4, Kept: 4}),
		work: newWork(), bodyTime: bodyTime, turnTime: turnTime, answerTime: answerTime,
	}
}

// newWork leaves half of the processors to what else runs on the node. Where there are few, there is one for whoever asks, and
// one for an operator.
func newWork() *turns.Turns {
	return turns.New("explanations and trials", turns.Bounds{Every: max(2, runtime.GOMAXPROCS(0)/2), Each: 1, Kept: 1})
}

// request is one that is being answered.
type request struct {
	*http.Request
	who access.User
	// share is whose places it takes.
	share turns.Who
	// text is what it asks, as it was sent.
	text []byte
}

// comes finds out who asks, whether they may and what they ask, and takes no turn for it: whoever is slow holds places of their
// own share alone, and those for a few seconds. Who has a turn, or does not want one, calls left.
func (h *handler) comes(w http.ResponseWriter, r *http.Request, most int64, may func(request) error) (out request, left func(), err error) {
	out = request{Request: r}
	if out.who, err = h.identify(r); err != nil {
		return out, nil, err
	}
	out.share = h.share(r.Context(), out.who)
	if left, err = enter(h.places.come, out.share); err != nil {
		return out, nil, err
	}
	if err = may(out); err == nil && most > 0 {
		out.text, err = h.read(w, r, most)
	}
	if err != nil {
		left()
		return out, nil, err
	}
	return out, left, nil
}

// read reads all that is sent, of which there may be so many bytes.
func (h *handler) read(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(h.places.bodyTime)); err != nil {
		return nil, fmt.Errorf("read the question: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	switch {
	case err != nil:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("read the question: %v", err))
	case int64(len(text)) > most:
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("a question has at most %d bytes", most))
	}
	// What follows takes longer than reading may.
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("read the question: %w", err)
	}
	return text, nil
}

// enter takes a place at once.
func enter(from *turns.Turns, who turns.Who) (leave func(), err error) {
	if leave, err = from.Enter(who); err != nil {
		return nil, apierrors.NewTooManyRequests(err.Error(), 1)
	}
	return leave, nil
}

// await takes a place as soon as there is one.
func await(ctx context.Context, from *turns.Turns, who turns.Who, most time.Duration) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if leave, err = from.Wait(ctx, who); err != nil {
		return nil, apierrors.NewTooManyRequests(err.Error(), 1)
	}
	return leave, nil
}

// working does what takes a processor, when it is the turn of whoever asks.
func (h *handler) working(r request, work func() error) error {
	leave, err := await(r.Context(), h.places.work, r.share, answerTime)
	if err != nil {
		return err
	}
	defer leave()
	return work()
}

// share is whose places somebody takes: those of a Tenant's namespaces and its admins have them together, who may see the whole
// cluster has places that are kept, and all others have their own, ServiceAccounts of a namespace together: its admin makes as
// many as they like, and gives them their rights.
func (h *handler) share(ctx context.Context, who access.User) turns.Who {
	if all, err := h.authz.may(ctx, who, attributes{verb: "get", resource: api.ResourceClusters}); err == nil && all {
		return turns.Who{Share: countedAs(who.Name), Operator: true}
	}
	if tenant := h.tenants.of(h.answers, who); tenant != "" {
		return turns.Who{Share: "tenant:" + tenant, Tenant: true}
	}
	return turns.Who{Share: countedAs(who.Name)}
}

// countedAs is who shares a user's part where there is no Tenant.
func countedAs(user string) string {
	const begin = "system:serviceaccount:"
	if account, is := strings.CutPrefix(user, begin); is {
		namespace, _, _ := strings.Cut(account, ":")
		return begin + namespace
	}
	return "user:" + user
}

// tenants know whose somebody is. What the cluster says of it is asked for now and then only: each request needs it.
type tenants struct {
	mu    sync.Mutex
	known snapshot.Tenants
	read  time.Time
}

// of is the Tenant of somebody; empty where they have none, or nobody knows yet.
func (t *tenants) of(answers Answers, who access.User) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.read) > tenantsAge {
		if known, err := answers.Tenants(); err == nil {
			t.known, t.read = known, time.Now()
		}
	}
	return t.known.Of(who.Name, who.Groups)
}

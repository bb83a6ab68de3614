package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/process/turns"
)

const (
	pathCheck = "/check"
	// maxChecksAtOnce is how many checks an agent makes at the same time. Each compares all that it keeps.
	maxChecksAtOnce = 2
	// checkTime bounds a check, with the repair that it may ask for.
	checkTime = 25 * time.Second
	// maxCheck bounds an answer, maxText each text in it, in bytes.
	maxCheck, maxText = 2 << 20, 512
)

// CheckQuestion asks whether what is on the node is what its agent wants there.
type CheckQuestion struct {
	// User is on whose account, for the log.
	User string `json:"user"`
	// Repair: what differs is to be put right. atoll-inspect has seen to it that the user may have that done.
	Repair bool `json:"repair,omitempty"`
}

// Check says what is wrong with it.
func (q CheckQuestion) Check() error {
	if q.User == "" {
		return errors.New("a question says on whose account it is asked")
	}
	return nil
}

func (q CheckQuestion) by() turns.Who { return share(turns.Who{}, q.User) }

func (h *handler) check(w http.ResponseWriter, r *http.Request) {
	q, leave, ok := begin[CheckQuestion](w, r, maxQuestion, h.checks)
	if !ok {
		return
	}
	defer leave()
	log := h.log.With("user", shortened(q.User), "repair", q.Repair)
	ctx, cancel := context.WithTimeout(r.Context(), checkTime)
	defer cancel()
	began := time.Now()
	found, err := h.answers.Check(ctx, q.Repair)
	log.Info("the node has been checked", "took", time.Since(began).Round(time.Millisecond), "differences", len(found.Differences)+found.More,
		"repaired", len(found.Repaired), "error", err)
	if err != nil {
		refuseFor(w, err)
		return
	}
	_ = (&lines{w: w, control: http.NewResponseController(w)}).write(shortTexts(found)) // Who asked may have gone.
}

// shortTexts is a check of which no text is longer than one may be.
func shortTexts(c api.NodeCheckStatus) api.NodeCheckStatus {
	short := func(text *string) {
		if len(*text) > maxText {
			*text = (*text)[:maxText-3] + "..."
		}
	}
	for _, all := range [][]api.NodeDifference{c.Differences, c.Repaired} {
		for i := range all {
			for _, text := range []*string{&all[i].Owner, &all[i].Object, &all[i].Want, &all[i].Have} {
				short(text)
			}
		}
	}
	short(&c.Problem)
	return c
}

// Check asks whether what is on the node is what should be. Its error is an UnreachableError, a RefusedError, or that the answer is none.
func (c Client) Check(ctx context.Context, q CheckQuestion) (api.NodeCheckStatus, error) {
	q.User = bounded(q.User)
	ctx, cancel := context.WithTimeout(ctx, checkTime+2*dialTime)
	defer cancel()
	body, err := c.ask(ctx, pathCheck, q)
	if err != nil {
		return api.NodeCheckStatus{}, err
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(io.LimitReader(body, maxCheck+1))
	var found api.NodeCheckStatus
	switch {
	case err != nil:
	case len(text) > maxCheck:
		err = errors.New("it is too long")
	default:
		if err = json.Unmarshal(text, &found); err == nil {
			err = believable(found, q.Repair)
		}
	}
	if err != nil {
		return api.NodeCheckStatus{}, fmt.Errorf("read the answer of node %s: %w", c.Node, err)
	}
	return found, nil
}

// believable is an error unless an agent could have found that.
func believable(c api.NodeCheckStatus, repair bool) error {
	switch {
	case c.Silent != "":
		return errors.New("it says of itself that it has not answered")
	case c.Interfaces < 0 || c.Portholes < 0 || c.More < 0:
		return errors.New("it counts less than nothing")
	case len(c.Differences) > api.MaxNodeDifferences || len(c.Repaired) > api.MaxNodeDifferences:
		return errors.New("it has more differences than one may have")
	case !repair && (len(c.Repaired) > 0 || c.Problem != ""):
		return errors.New("it has repaired what nobody asked it to")
	}
	return nil
}

package nodeapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/atoll-net/atoll/pkg/node/capture"
	"github.com/atoll-net/atoll/pkg/process/turns"
)

const (
	// maxCaptureLine bounds a line with packets, in bytes: they are in base64.
	maxCaptureLine = 1 << 20
	// CaptureTime bounds the answer to one question.
	CaptureTime = capture.MaxPart + 2*dialTime
)

// CaptureQuestion asks for a part of a capture of a pod's packets.
type CaptureQuestion struct {
	// User is on whose account. Nobody else gets a later part.
	User string `json:"user"`
	// Account is whose turns it takes.
	Account turns.Who    `json:"account,omitzero"`
	Pod     Pod          `json:"pod"`
	Spec    capture.Spec `json:"spec"`
	Part    capture.Part `json:"part"`
}

// Check says what is wrong with it.
func (q CaptureQuestion) Check() error {
	return errors.Join(named(q.User, q.Pod), q.Spec.Check(), q.Part.Check())
}

func (q CaptureQuestion) by() turns.Who { return share(q.Account, q.User) }

// CaptureLine is a part of an answer. The first says that packets are taken from now on, the last how it ended.
type CaptureLine struct {
	Begun   bool             `json:"begun,omitempty"`
	Update  *capture.Update  `json:"update,omitempty"`
	Outcome *capture.Outcome `json:"outcome,omitempty"`
	// Error is why it is not whole.
	Error string `json:"error,omitempty"`
}

func (h *handler) capture(w http.ResponseWriter, r *http.Request) {
	q, leave, ok := begin[CaptureQuestion](w, r, maxQuestion, h.captures)
	if !ok {
		return
	}
	defer leave()
	log := h.log.With("user", shortened(q.User), "pod", q.Pod.Key(), "uid", q.Pod.UID, "part", q.Part.Number)
	log.Info("packets of a pod are captured", "interface", q.Spec.Interface, "direction", q.Spec.Direction, "filter", q.Spec.Filter.String())
	ctx, cancel := context.WithTimeout(r.Context(), CaptureTime)
	defer cancel()
	out := &lines{w: w, control: http.NewResponseController(w)}
	told := 0
	err := h.answers.Capture(ctx, q, func(line CaptureLine) error {
		if line.Update != nil {
			told += len(line.Update.Packets)
		}
		return out.write(line)
	})
	log.Info("packets of a pod are not captured any more", "told", told, "error", err)
	switch {
	case err != nil && !out.begun:
		refuseFor(w, err)
	case err != nil:
		_ = out.write(CaptureLine{Error: err.Error()}) // Who asked may have gone.
	}
}

// Capture has packets of a pod of the node captured, and tells of each line but errors. Its error is as of Ping.
func (c Client) Capture(ctx context.Context, q CaptureQuestion, each func(CaptureLine) error) error {
	q.User = bounded(q.User)
	ctx, cancel := context.WithTimeout(ctx, CaptureTime)
	defer cancel()
	body, err := c.ask(ctx, pathCapture, q)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	return c.readCapture(body, q, each)
}

// readCapture reads an answer: packets no longer than was asked for, nor more of them.
func (c Client) readCapture(body io.Reader, q CaptureQuestion, each func(CaptureLine) error) error {
	scanner := bufio.NewScanner(body)
	scanner.Buffer(make([]byte, 64<<10), maxCaptureLine)
	wrong := func(what string) error { return fmt.Errorf("read the answer of node %s: %s", c.Node, what) }
	told, bytes, begun := 0, int64(0), false
	for scanner.Scan() {
		var line CaptureLine
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			return fmt.Errorf("read the answer of node %s: %w", c.Node, err)
		}
		if line.Error != "" {
			return &RefusedError{What: fmt.Sprintf("node %s: %s", c.Node, line.Error)}
		}
		if line.Begun == begun {
			return wrong("it does not begin with that it begins")
		}
		begun = true
		if line.Update != nil {
			for _, p := range line.Update.Packets {
				if len(p.Data) > q.Spec.SnapLength || p.Length < len(p.Data) || p.Length > capture.MaxLength {
					return wrong("it has a packet longer than was asked for")
				}
				told, bytes = told+1, bytes+int64(len(p.Data))
			}
		}
		if told > most(q.Spec.Count, capture.MaxCount) || bytes > most(q.Spec.Bytes, capture.MaxBytes)+capture.MaxSnapLength {
			return wrong("it has more packets than were asked for")
		}
		if err := each(line); err != nil {
			return err
		}
		if line.Outcome != nil {
			return nil
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("read the answer of node %s: %w", c.Node, err)
	}
	return wrong("it is not whole")
}

func most[T int | int64](asked, bound T) T {
	if asked == 0 {
		return bound
	}
	return asked
}

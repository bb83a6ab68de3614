package capture

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

const (
	// maxHeld is how many captures there are at once on a node.
	maxHeld = 8
	// patience is how long a capture waits for somebody who asks for its next part.
	patience = 15 * time.Second
	// pulse is how often it is told how much there was, and looked whether the pod is still there.
	pulse = 500 * time.Millisecond
	// maxRate is how much of packets is told in a second, in bytes; what comes beyond that for long is dropped by the kernel, and counted.
	maxRate = 16 << 20
)

// Owner says whose a capture is, and of which pod. Nobody else gets a part of it.
type Owner struct{ User, PodUID, ID string }

// Update is some of an answer: packets, or how many there were.
type Update struct {
	Packets []api.PodCapturePacket `json:"records,omitempty"`
	Counts  *api.PodCaptureCounts  `json:"stats,omitempty"`
}

// Outcome is how a part ended: an api.PodCaptureEnd, but that JSON calls the counts stats, as agents of the version before do.
type Outcome struct {
	Counts api.PodCaptureCounts `json:"stats"`
	// Told is how many packets were told in all parts up to here.
	Told int `json:"told"`
	// More: the next part may be asked for. If not, Why says why not; it is empty if the last part was asked for.
	More bool   `json:"more,omitempty"`
	Why  string `json:"why,omitempty"`
}

// BusyError says that there are too many captures.
type BusyError struct{ what string }

// Error implements error.
func (e *BusyError) Error() string { return e.what }

// ErrUnknown is the error of a part of a capture that is not there.
var ErrUnknown = errors.New("the capture has ended: nobody has asked for its next part in time, or the agent was restarted")

// Keeper keeps captures from one part to the next.
type Keeper struct {
	mu  sync.Mutex
	all map[Owner]*held
}

// held is a capture. While it is in use, timer is nil.
type held struct {
	socket *Socket
	spec   Spec
	began  time.Time
	part   int
	told   int
	bytes  int64
	pace   *rate.Limiter
	timer  *time.Timer
}

// Means are by what a part is made.
type Means struct {
	// Open opens the socket of the first part.
	Open func() (*Socket, error)
	// Lives is an error once the pod is not there any more.
	Lives func() error
	// Begun is told once packets are taken, before the first.
	Begun func()
	// Each is told of packets. It may block: then the kernel keeps what it can. Its error ends the capture.
	Each func(Update) error
}

// Run is one part of a capture. Unless it was the last part, the socket stays open for a while, and the kernel keeps what arrives
// until the next part. It fails if there is no such part, or when ctx ends, which ends the capture.
func (k *Keeper) Run(ctx context.Context, owner Owner, spec Spec, part Part, by Means) (Outcome, error) {
	if err := errors.Join(spec.Check(), part.Check()); err != nil {
		return Outcome{}, err
	}
	h, err := k.take(owner, spec, part, by.Open)
	if err != nil {
		return Outcome{}, err
	}
	by.Begun()
	out, err := h.run(ctx, part, by)
	if err != nil || !out.More {
		return out, errors.Join(err, k.end(owner, h))
	}
	k.keep(owner, h)
	return out, nil
}

// take begins a capture, or goes on with one.
func (k *Keeper) take(owner Owner, spec Spec, part Part, open func() (*Socket, error)) (*held, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h, there := k.all[owner]
	if part.Number > 0 {
		if !there || h.timer == nil || !h.spec.Equal(spec) || h.part+1 != part.Number || !h.timer.Stop() {
			return nil, ErrUnknown
		}
		h.timer, h.part = nil, part.Number
		return h, nil
	}
	switch {
	case there:
		return nil, errors.New("there is a capture of this ID already")
	case len(k.all) >= maxHeld:
		return nil, &BusyError{fmt.Sprintf("there are %d captures on this node already, and no more at once", len(k.all))}
	}
	socket, err := open()
	if err != nil {
		return nil, err
	}
	h = &held{socket: socket, spec: spec, began: time.Now(), pace: rate.NewLimiter(maxRate, maxRate)}
	if k.all == nil {
		k.all = map[Owner]*held{}
	}
	k.all[owner] = h
	return h, nil
}

// keep waits for the next part.
func (k *Keeper) keep(owner Owner, h *held) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h.timer = time.AfterFunc(patience, func() { _ = k.end(owner, h) })
}

func (k *Keeper) end(owner Owner, h *held) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.all, owner)
	return h.socket.Close()
}

// run tells of packets until the part is over.
func (h *held) run(ctx context.Context, part Part, by Means) (Outcome, error) {
	over := time.Now().Add(part.Time)
	stop := context.AfterFunc(ctx, h.socket.Interrupt)
	defer stop()
	why := ""
	var last time.Time
	for ctx.Err() == nil && why == "" && time.Now().Before(over) {
		if time.Since(last) >= pulse {
			last = time.Now()
			if err := by.Lives(); err != nil {
				why = err.Error()
				break
			}
			counts, err := h.socket.Stats()
			if err == nil {
				err = by.Each(Update{Counts: &counts})
			}
			if err != nil {
				return Outcome{}, err
			}
		}
		records, err := h.socket.Batch(earlier(over, last.Add(pulse)))
		if err != nil {
			why = err.Error()
		}
		packets, ended := h.within(records)
		if why == "" {
			why = ended
		}
		if len(packets) == 0 {
			continue
		}
		if err := by.Each(Update{Packets: packets}); err != nil {
			return Outcome{}, err
		}
		if err := h.pace.WaitN(ctx, sizeOf(packets)); err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return Outcome{}, context.Cause(ctx)
	}
	counts, err := h.socket.Stats()
	out := Outcome{Counts: counts, Told: h.told, Why: why}
	if why == "" && !part.Last {
		if out.More = time.Since(h.began) < MaxTime; !out.More {
			out.Why = fmt.Sprintf("it has lasted %s, and no capture lasts longer", MaxTime)
		}
	}
	return out, err
}

// within are those that the capture's bounds let through, and which of them was reached.
func (h *held) within(records []Record) (out []api.PodCapturePacket, ended string) {
	out = make([]api.PodCapturePacket, 0, len(records))
	for _, r := range records {
		out = append(out, r.PodCapturePacket)
		h.told++
		h.bytes += int64(len(r.Data))
		switch {
		case h.spec.Count > 0 && h.told >= h.spec.Count:
			return out, fmt.Sprintf("%d packets were captured", h.told)
		case h.bytes >= h.most():
			return out, fmt.Sprintf("%d bytes were captured", h.bytes)
		}
	}
	return out, ""
}

func (h *held) most() int64 {
	if h.spec.Bytes > 0 {
		return h.spec.Bytes
	}
	return MaxBytes
}

func sizeOf(packets []api.PodCapturePacket) (sum int) {
	for _, p := range packets {
		sum += len(p.Data)
	}
	return sum
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

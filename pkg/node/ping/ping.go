// Package ping sends packets from where it is told to addresses, and says which are answered, how soon, and what was in the way
// of the others: echo requests of ICMP, connections of TCP, or datagrams of UDP.
//
// What must stay true: a reply counts only for the packet that it answers; what is sent is bounded in number, size and time
// before anything is sent; and sockets are made where Spec's packets are to leave from, in the network namespace that inside
// enters.
package ping

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// ICMP stands beside the transport protocols.
const ICMP model.Protocol = "icmp"

// The bounds of one Spec.
const (
	// MaxTime is how long all of it may take if nothing is answered.
	MaxTime = 25 * time.Second
	// MaxCount is how many packets go to each target, MaxTargets how many targets there are.
	MaxCount   = 100
	MaxTargets = 8
	// MaxSize is the largest payload, in bytes; MinSize the smallest, which tells one packet from another.
	MaxSize = 8000
	MinSize = 16
	// MinInterval is the least time between two packets to a target.
	MinInterval = 100 * time.Millisecond
	// MaxTimeout is the longest wait for an answer.
	MaxTimeout = 10 * time.Second
)

// Spec says what is sent. Durations are in nanoseconds in JSON.
type Spec struct {
	// Protocol is ICMP, TCP or UDP.
	Protocol model.Protocol `json:"protocol"`
	// Targets are pinged at the same time.
	Targets []netip.Addr `json:"targets"`
	// Port is dialled; 0 for ICMP.
	Port uint16 `json:"port,omitempty"`
	// Count is how many packets go to each target, one each Interval. First is the number of the first.
	Count int `json:"count"`
	First int `json:"first,omitempty"`
	// Size is that of the payload, in bytes; a connection has none.
	Size int `json:"size"`
	// Interval is from one packet to the next, and Timeout is how long an answer is waited for. The next packet waits for the answer.
	Interval time.Duration `json:"interval"`
	Timeout  time.Duration `json:"timeout"`
	// Mark marks the packets, where there is one: then Count is 1.
	Mark *Mark `json:"mark,omitempty"`
}

// Check says what is wrong with it.
func (s Spec) Check() error {
	between := func(what string, value, least, most int) error {
		if value < least || value > most {
			return fmt.Errorf("%s: %d is not between %d and %d", what, value, least, most)
		}
		return nil
	}
	var port error
	switch {
	case !slices.Contains([]model.Protocol{ICMP, model.TCP, model.UDP}, s.Protocol):
		return fmt.Errorf("protocol: %q is none of icmp, tcp and udp", s.Protocol)
	case s.Protocol == ICMP && s.Port != 0:
		port = errors.New("port: icmp has none")
	case s.Protocol != ICMP && s.Port == 0:
		port = fmt.Errorf("port: %s needs one", s.Protocol)
	}
	if s.Mark != nil && s.Count != 1 {
		return fmt.Errorf("mark: %d packets of one mark are not told apart", s.Count)
	}
	for _, a := range s.Targets {
		if !ofOne(a) {
			return fmt.Errorf("target: %s is not the address of one", a)
		}
	}
	if s.Interval < MinInterval {
		return fmt.Errorf("interval: %s is less than %s", s.Interval, MinInterval)
	}
	if s.Timeout <= 0 || s.Timeout > MaxTimeout {
		return fmt.Errorf("timeout: %s is not between 0s and %s", s.Timeout, MaxTimeout)
	}
	err := errors.Join(port, between("targets", len(s.Targets), 1, MaxTargets), between("count", s.Count, 1, MaxCount),
		between("first", s.First, 0, 1<<30),
		between("size", s.Size, MinSize, MaxSize))
	if most := max(s.Interval, s.Timeout); err == nil && (most > MaxTime || time.Duration(s.Count)*most > MaxTime) {
		err = fmt.Errorf("count: %d packets could take %s, and may take %s", s.Count, time.Duration(s.Count)*most, MaxTime)
	}
	return err
}

// ofOne reports whether an address is one host's: no group's, and not that of all.
func ofOne(a netip.Addr) bool {
	broadcast := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	return a.IsValid() && a.Zone() == "" && !a.IsUnspecified() && !a.IsMulticast() && a != broadcast
}

// Reply is what became of a packet.
type Reply struct {
	// Target is whom it was sent to, Number which of the packets it was.
	Target netip.Addr `json:"target"`
	Number int        `json:"number"`
	// Answered: it was, after Took.
	Answered bool          `json:"answered"`
	Took     time.Duration `json:"took"`
	// Why it was not answered, in words.
	Why string `json:"why,omitempty"`
}

// Place runs a function in a network namespace.
type Place func(func() error) error

// probe sends one packet to a target, and waits for the answer until ctx ends. Its error is why there was none.
type probe func(ctx context.Context, number int) error

// Run sends, and tells of each packet, one at a time, as it is known what became of it. Its error is that it could not send.
func Run(ctx context.Context, s Spec, inside Place, each func(Reply)) error {
	if err := s.Check(); err != nil {
		return err
	}
	var (
		sending sync.WaitGroup
		mu      sync.Mutex
		failed  []error
	)
	for i, target := range s.Targets {
		send, end, err := s.prober(i, inside)
		if err != nil {
			failed = append(failed, err)
			break
		}
		defer end()
		sending.Go(func() {
			s.train(ctx, target, send, func(r Reply) {
				mu.Lock()
				defer mu.Unlock()
				each(r)
			})
		})
	}
	sending.Wait()
	return errors.Join(append(failed, context.Cause(ctx))...)
}

// train sends the packets to one target.
func (s Spec) train(ctx context.Context, target netip.Addr, send probe, each func(Reply)) {
	pace := time.NewTicker(s.Interval)
	defer pace.Stop()
	for i := range s.Count {
		if i > 0 {
			select {
			case <-ctx.Done():
				return
			case <-pace.C:
			}
		}
		r := Reply{Target: target, Number: s.First + i}
		waiting, cancel := context.WithTimeout(ctx, s.Timeout)
		began := time.Now()
		err := send(waiting, r.Number)
		r.Took = time.Since(began)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if r.Answered = err == nil; err != nil {
			r.Took, r.Why = 0, err.Error()
		}
		each(r)
	}
}

// prober makes what sends to a target of a number, and what ends it.
func (s Spec) prober(target int, inside Place) (probe, func(), error) {
	switch s.Protocol {
	case model.TCP:
		return s.connect(target, inside), func() {}, nil
	case model.UDP:
		return s.datagram(target, inside), func() {}, nil
	}
	return s.echo(target, inside)
}

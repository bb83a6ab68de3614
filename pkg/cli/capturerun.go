package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

const (
	// maxLinesHeld bounds the lines that wait to be written. When it is reached, senders block.
	maxLinesHeld = 16
	// tick is how often the capture checks whether a pod has waited long enough for the others.
	tick = 250 * time.Millisecond
)

// askPart asks for a part of a pod's packets.
type askPart func(ctx context.Context, pod model.PodKey, spec api.PodCaptureSpec, each func(api.PodCaptureLine) error) error

// recording writes the packets of some pods.
type recording struct {
	options  captureOptions
	spec     api.PodCaptureSpec
	pods     []model.PodKey
	ask      askPart
	open     func() (io.WriteCloser, error)
	problems io.Writer
}

// heard is one report about a pod. The pod is given by its index.
type heard struct {
	pod  int
	line api.PodCaptureLine
	// ended: there is no more of it, for a reason if err is not nil.
	ended bool
	err   error
}

// track is the state of one pod.
type track struct {
	begun  *api.PodCaptureBegun
	counts api.PodCaptureCounts
	// told and written are how many packets came, and how many are in the file.
	told, written int
	why           string
	err           error
}

// run asks for all pods, and writes what they tell. The file is whole whenever it returns, if it has begun.
func (r *recording) run(ctx context.Context) error {
	asking, enough := context.WithCancel(ctx)
	lines, begin := make(chan heard, maxLinesHeld), make(chan struct{})
	var running sync.WaitGroup
	defer running.Wait()
	defer enough()
	for i, pod := range r.pods {
		running.Go(func() {
			tell := func(h heard) error {
				h.pod = i
				select {
				case lines <- h:
					return nil
				case <-asking.Done():
					return context.Cause(asking)
				}
			}
			err := r.parts(asking, pod, func(line api.PodCaptureLine) error {
				if err := tell(heard{line: line}); err != nil || line.Begun == nil {
					return err
				}
				select {
				case <-begin:
					return nil
				case <-asking.Done():
					return context.Cause(asking)
				}
			})
			_ = tell(heard{ended: true, err: err}) // Once there is enough, nothing reads this.
		})
	}
	tracks, err := r.begun(ctx, lines)
	if err != nil {
		return err
	}
	file, err := r.open()
	if err != nil {
		return err
	}
	w, err := newPackets(file, r.pods, tracks, r.spec)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	close(begin)
	for _, note := range r.notes(tracks) {
		fmt.Fprintln(r.problems, snapshot.Printable(note))
	}
	err = r.write(ctx, w, tracks, lines)
	enough()
	return cmp.Or(errors.Join(err, w.finish(tracks), file.Close()), r.conclude(ctx, tracks, w.disorder))
}

// begun waits until the packets of all pods are captured.
func (r *recording) begun(ctx context.Context, lines <-chan heard) ([]*track, error) {
	tracks := make([]*track, len(r.pods))
	for range r.pods {
		select {
		case <-ctx.Done():
			return nil, whyNot("capture", context.Cause(ctx))
		case h := <-lines:
			if h.line.Begun == nil {
				return nil, whyNot("capture "+r.pods[h.pod].String(), cmp.Or(h.err, errors.New("it has ended before it began")))
			}
			tracks[h.pod] = &track{begun: h.line.Begun}
		}
	}
	return tracks, nil
}

func (r *recording) notes(tracks []*track) (out []string) {
	for i, t := range tracks {
		note := fmt.Sprintf("Capturing %s of pod %s in Network %s on node %s", r.spec.Interface, r.pods[i], t.begun.Network, t.begun.Node)
		if t.begun.Filter != "" {
			note += ": " + t.begun.Filter
		}
		out = append(out, note)
	}
	return append(out, "Ctrl-C ends it.")
}

// write writes what is heard, until there is enough or no more. Its error is that it cannot write.
func (r *recording) write(ctx context.Context, w *packets, tracks []*track, lines <-chan heard) error {
	looking := time.NewTicker(tick)
	defer looking.Stop()
	for left := len(tracks); left > 0; {
		select {
		case <-ctx.Done():
			return w.release(true)
		case <-looking.C:
		case h := <-lines:
			t := tracks[h.pod]
			if h.ended {
				left--
				t.err = cmp.Or(t.err, h.err)
				w.over(h.pod)
				break
			}
			t.hear(h.line)
			w.add(h.pod, h.line.Packets)
		}
		if err := w.release(false); err != nil {
			return err
		}
		if why := r.enough(w); why != "" {
			for _, t := range tracks {
				t.why = why
			}
			return nil
		}
	}
	return w.release(true)
}

// enough says why there is.
func (r *recording) enough(w *packets) string {
	switch {
	case r.options.count > 0 && w.written >= r.options.count:
		return "--count was reached"
	case w.bytes >= r.options.bytes:
		return "--bytes was reached"
	}
	return ""
}

// hear takes what a line tells of counts.
func (t *track) hear(line api.PodCaptureLine) {
	t.told += len(line.Packets)
	if line.Counts != nil {
		t.counts = *line.Counts
	}
	if end := line.End; end != nil {
		t.counts, t.why = end.Counts, end.Why
		if end.Told != t.told {
			t.err = fmt.Errorf("the agent has told of %d packets, and %d have arrived", end.Told, t.told)
		}
	}
}

// conclude says what there was, and whether packets are missing.
func (r *recording) conclude(ctx context.Context, tracks []*track, disorder int) error {
	var missing bool
	say := func(format string, args ...any) {
		fmt.Fprintln(r.problems, snapshot.Printable(fmt.Sprintf(format, args...)))
	}
	for i, t := range tracks {
		name := r.pods[i].String()
		say("%s", capturedLine(name, r.spec.Interface, t.written, t.counts))
		// If the user stopped the capture, no reason is printed.
		if t.err != nil && ctx.Err() == nil {
			say("%s: it ended early: %v", name, t.err)
			missing = true
		} else if t.why != "" {
			say("%s: it ended: %s", name, t.why)
		}
		missing = missing || t.counts.Dropped > 0
	}
	if disorder > 0 {
		say("%s stand after later ones: their nodes were too slow, or their clocks differ", model.Count(disorder, "packet"))
	}
	if missing {
		say("Next: a narrower filter (--host, --port, --protocol) or a smaller --snaplen")
		return ErrMissing
	}
	return nil
}

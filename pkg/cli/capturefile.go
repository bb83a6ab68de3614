package cli

import (
	"container/heap"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/process/build"
)

// The bounds of what waits for earlier packets of other pods.
const (
	maxWaiting      = 50000
	maxWaitingBytes = 32 << 20
	// maxWait is longer than a pod with nothing to tell, or the way from one part to the next, should keep others waiting.
	maxWait = 2 * time.Second
)

// waiting is a packet that may not be the next yet.
type waiting struct {
	api.PodCapturePacket
	pod   int
	order int
	since time.Time
}

// queue has the earliest first; implements heap.Interface.
type queue []waiting

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].Time < q[j].Time || q[i].Time == q[j].Time && q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *queue) Push(x any) { *q = append(*q, x.(waiting)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	(*q)[len(*q)-1] = waiting{}
	*q = (*q)[:len(*q)-1]
	return last
}

// packets writes pcapng (draft-ietf-opsawg-pcapng): a section with an interface for each pod, and packets in order of time, as
// far as waiting for it is bounded.
type packets struct {
	file   *pcapgo.NgWriter
	tracks []*track
	began  time.Time
	// until is the time of the last packet of each pod, in nanoseconds since 1970: no earlier one will come.
	until []int64
	queue queue
	// held are the bytes that wait, order the number of the last packet that came, last the time of the last that was written.
	held, order int
	last        int64
	// written and bytes are of all pods; disorder is how many stand after later ones.
	written, disorder int
	bytes             int64
}

// newPackets begins a file.
func newPackets(out io.Writer, pods []model.PodKey, tracks []*track, spec api.PodCaptureSpec) (*packets, error) {
	p := &packets{tracks: tracks, began: time.Now(), until: make([]int64, len(pods))}
	section := pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{
		Application: "atoll " + build.Version(), Comment: fmt.Sprintf("atoll capture of %s, direction %s", model.Count(len(pods), "pod"),
			spec.Direction),
	}}
	for i, pod := range pods {
		b := tracks[i].begun
		about := pcapgo.NgInterface{
			Name: pod.String() + " " + spec.Interface, Description: fmt.Sprintf("%s of pod %s in Network %s", spec.Interface, pod, b.Network),
			Comment: fmt.Sprintf("namespace %s, pod %s, UID %s, Network %s, node %s, interface %s, direction %s, filter %q", pod.Namespace, pod.Name,
				b.UID, b.Network, b.Node,
				spec.Interface, spec.Direction, b.Filter),
			Filter: b.Filter, OS: "linux", LinkType: layers.LinkTypeEthernet, SnapLength: uint32(spec.SnapLength),
		}
		var err error
		if i == 0 {
			p.file, err = pcapgo.NewNgWriterInterface(out, about, section)
		} else {
			_, err = p.file.AddInterface(about)
		}
		if err != nil {
			return nil, fmt.Errorf("write packets: %w", err)
		}
	}
	return p, p.flush()
}

// add takes packets of a pod.
func (p *packets) add(pod int, all []api.PodCapturePacket) {
	now := time.Now()
	for _, one := range all {
		p.order++
		p.held += len(one.Data)
		p.until[pod] = max(p.until[pod], one.Time)
		heap.Push(&p.queue, waiting{one, pod, p.order, now})
	}
}

// over says that no more packets of a pod will come.
func (p *packets) over(pod int) { p.until[pod] = math.MaxInt64 }

// release writes those whose turn it is, or all.
func (p *packets) release(all bool) error {
	known := int64(math.MaxInt64)
	for _, until := range p.until {
		known = min(known, until)
	}
	count := p.written
	for now := time.Now(); len(p.queue) > 0; {
		next := p.queue[0]
		if !all && next.Time > known && now.Sub(next.since) < maxWait && len(p.queue) <= maxWaiting && p.held <= maxWaitingBytes {
			break
		}
		if err := p.write(heap.Pop(&p.queue).(waiting)); err != nil { //nolint:forcetypeassert // It holds nothing else.
			return err
		}
	}
	if p.written == count {
		return nil
	}
	return p.flush()
}

func (p *packets) write(w waiting) error {
	p.held -= len(w.Data)
	if w.Time < p.last {
		p.disorder++
	}
	p.last = max(p.last, w.Time)
	direction := pcapgo.NgEpbFlagDirectionInbound
	if w.Out {
		direction = pcapgo.NgEpbFlagDirectionOutbound
	}
	about := gopacket.CaptureInfo{
		Timestamp: time.Unix(0, w.Time), CaptureLength: len(w.Data), Length: max(w.Length, len(w.Data)), InterfaceIndex: w.pod,
	}
	if err := p.file.WritePacketWithOptions(about, w.Data,
		pcapgo.NgPacketOptions{Flags: &pcapgo.NgEpbFlags{Direction: direction}}); err != nil {
		return fmt.Errorf("write packets: %w", err)
	}
	p.written++
	p.bytes += int64(len(w.Data))
	p.tracks[w.pod].written++
	return nil
}

// finish writes how many packets there were of each pod.
func (p *packets) finish(tracks []*track) error {
	for i, t := range tracks {
		now := time.Now()
		stats := pcapgo.NgInterfaceStatistics{
			LastUpdate: now, StartTime: p.began, EndTime: now, PacketsReceived: t.counts.Received, PacketsDropped: t.counts.Dropped,
		}
		if err := p.file.WriteInterfaceStats(i, stats); err != nil {
			return fmt.Errorf("write packets: %w", err)
		}
	}
	return p.flush()
}

func (p *packets) flush() error {
	if err := p.file.Flush(); err != nil {
		return fmt.Errorf("write packets: %w", err)
	}
	return nil
}

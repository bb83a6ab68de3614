package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

func pod(namespace, name string) model.PodKey { return model.PodKey{Namespace: namespace, Name: name} }

func packet(time int64, text string, out bool) api.PodCapturePacket {
	return api.PodCapturePacket{Time: time, Length: len(text) + 10, Out: out, Data: []byte(text)}
}

// captured is what is written of pods that tell as they are told to, with what is said, and what it ends with.
func captured(
	t *testing.T, ctx context.Context, o captureOptions, ask askPart, pods ...model.PodKey,
) (file []byte, said string, err error) {
	t.Helper()
	var out, problems bytes.Buffer
	if o.bytes == 0 {
		o.bytes = 1 << 20
	}
	spec := api.PodCaptureSpec{ID: "an ID of this test", Interface: "eth0", Direction: "both", SnapLength: 1500}
	r := &recording{
		options: o, spec: spec, pods: pods, ask: ask, open: func() (io.WriteCloser, error) { return unclosed{&out}, nil }, problems: &problems,
	}
	err = r.run(ctx)
	return out.Bytes(), problems.String(), err
}

// readBack is a file as others read it: its interfaces, and its packets as NAME TIME TEXT DIRECTION.
func readBack(t *testing.T, file []byte) (interfaces []pcapgo.NgInterface, all []string) {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.NgReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, about, options, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		direction := "in"
		if options.Flags != nil && options.Flags.Direction == pcapgo.NgEpbFlagDirectionOutbound {
			direction = "out"
		}
		if about.Length != len(data)+10 {
			t.Errorf("a packet of %d bytes was %d bytes long", len(data), about.Length)
		}
		all = append(all, strings.Join([]string{about.Timestamp.UTC().Format("05.000000000"), string(data), direction}, " "))
	}
	for i := range r.NInterfaces() {
		one, err := r.Interface(i)
		if err != nil {
			t.Fatal(err)
		}
		interfaces = append(interfaces, one)
	}
	return interfaces, all
}

// TestCapturesAreOneFile: of several pods, in order of time however they come, with whose they are, the filter and what was
// dropped in it; in parts, of which none is lost.
func TestCapturesAreOneFile(t *testing.T) {
	t.Parallel()
	ask := func(_ context.Context, p model.PodKey, s api.PodCaptureSpec, each func(api.PodCaptureLine) error) error {
		begun := api.PodCaptureLine{Begun: &api.PodCaptureBegun{UID: "uid-" + p.Name, Network: "red", Node: "n1", Filter: "port 80"}}
		counts := api.PodCaptureCounts{Received: 4, Dropped: 1}
		var lines []api.PodCaptureLine
		switch {
		case p.Name == "web" && s.Part == 0:
			lines = []api.PodCaptureLine{
				begun,
				{Packets: []api.PodCapturePacket{packet(1e9, "a", true), packet(4e9, "d", false)}},
				{End: &api.PodCaptureEnd{Told: 2, More: true}},
			}
		case p.Name == "web":
			lines = []api.PodCaptureLine{
				begun, {Packets: []api.PodCapturePacket{packet(5e9+7, "e", false)}}, {End: &api.PodCaptureEnd{Told: 3, Counts: counts}},
			}
		default:
			lines = []api.PodCaptureLine{
				begun, {Packets: []api.PodCapturePacket{packet(2e9, "b", true), packet(3e9, "cc", true)}}, {End: &api.PodCaptureEnd{Told: 2}},
			}
		}
		for _, l := range lines {
			if err := each(l); err != nil {
				return err
			}
		}
		return nil
	}
	file, said, err := captured(t, t.Context(), captureOptions{}, ask, pod("red", "web"), pod("red", "db"))
	interfaces, all := readBack(t, file)
	if want := []string{
		"01.000000000 a out", "02.000000000 b out", "03.000000000 cc out", "04.000000000 d in", "05.000000007 e in",
	}; !slices.Equal(all, want) {
		t.Errorf("packets are %q, want %q", all, want)
	}
	if len(interfaces) != 2 || interfaces[0].Name != "red/web eth0" || interfaces[1].Name != "red/db eth0" ||
		interfaces[0].Filter != "port 80" || interfaces[0].SnapLength != 1500 ||
		!strings.Contains(interfaces[0].Comment, "namespace red, pod web, UID uid-web, Network red, node n1") {
		t.Errorf("interfaces are %+v", interfaces)
	} else if s := interfaces[0].Statistics; s.PacketsReceived != 4 || s.PacketsDropped != 1 {
		t.Errorf("statistics are %+v", s)
	}
	if !errors.Is(err, ErrMissing) || !HasSaid(err) ||
		!strings.Contains(said, "red/web eth0: 3 packets written; 4 fitted the filter, 1 of these dropped by the kernel") ||
		strings.Contains(said, "early") {
		t.Errorf("it ends with %v, and says\n%s", err, said)
	}
}

// TestCapturesEnd: by whoever stops them, by the bounds, and by what is wrong; the file is whole each time.
func TestCapturesEnd(t *testing.T) {
	t.Parallel()
	begun := api.PodCaptureLine{Begun: &api.PodCaptureBegun{}}
	// endless tells of packets until it is told to end.
	endless := func(ctx context.Context, _ model.PodKey, _ api.PodCaptureSpec, each func(api.PodCaptureLine) error) error {
		err := each(begun)
		for i := int64(1); err == nil; i++ {
			if err = ctx.Err(); err == nil {
				err = each(api.PodCaptureLine{Packets: []api.PodCapturePacket{packet(i, "0123456789", false)}})
			}
		}
		return err
	}
	stopped, stop := context.WithCancel(t.Context())
	three := func(ctx context.Context, p model.PodKey, s api.PodCaptureSpec, each func(api.PodCaptureLine) error) error {
		n := 0
		return endless(ctx, p, s, func(l api.PodCaptureLine) error {
			if n++; n == 4 {
				stop()
				<-ctx.Done()
			}
			return each(l)
		})
	}
	for name, c := range map[string]struct {
		ctx   context.Context
		o     captureOptions
		ask   askPart
		says  string
		most  int
		fails error
	}{
		"by Ctrl-C": {stopped, captureOptions{}, three, " written; ", 3, nil},
		"by count":  {t.Context(), captureOptions{count: 5}, endless, "--count was reached", 5, nil},
		"by bytes":  {t.Context(), captureOptions{bytes: 45}, endless, "--bytes was reached", 5, nil},
		"by a cut": {t.Context(), captureOptions{}, func(
			_ context.Context, _ model.PodKey, _ api.PodCaptureSpec, each func(api.PodCaptureLine) error,
		) error {
			return errors.Join(each(begun), each(api.PodCaptureLine{Packets: []api.PodCapturePacket{packet(1, "a", false)}}),
				errors.New("the connection broke"))
		}, "it ended early: the connection broke", 1, ErrMissing},
		"with less than was told": {t.Context(), captureOptions{}, func(
			_ context.Context, _ model.PodKey, _ api.PodCaptureSpec, each func(api.PodCaptureLine) error,
		) error {
			return errors.Join(each(begun), each(api.PodCaptureLine{End: &api.PodCaptureEnd{Told: 2}}))
		}, "has told of 2 packets, and 0 have arrived", 0, ErrMissing},
	} {
		file, said, err := captured(t, c.ctx, c.o, c.ask, pod("red", "web"))
		if !errors.Is(err, c.fails) || (err == nil) != (c.fails == nil) || !strings.Contains(said, c.says) {
			t.Errorf("%s: %v\n%s", name, err, said)
		}
		if _, all := readBack(t, file); len(all) > c.most || name != "by Ctrl-C" && len(all) != c.most {
			t.Errorf("%s: there are %d packets, want %d", name, len(all), c.most)
		}
	}
	refused := errors.New("you may not")
	file, _, err := captured(t, t.Context(),
		captureOptions{}, func(ctx context.Context, p model.PodKey, s api.PodCaptureSpec, each func(api.PodCaptureLine) error) error {
			if p.Name == "db" {
				return refused
			}
			return endless(ctx, p, s, each)
		}, pod("red", "web"), pod("red", "db"))
	if !errors.Is(err, refused) || len(file) > 0 || ExitStatus(err) != statusFailed {
		t.Errorf("with one that is refused it ends with %v, and %d bytes", err, len(file))
	}
}

// TestPacketsThatWaitAreBounded: while a pod tells nothing, another's packets are written after a while; and what is late then is counted.
func TestPacketsThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	tracks := []*track{{begun: &api.PodCaptureBegun{}}, {begun: &api.PodCaptureBegun{}}}
	p, err := newPackets(&out, []model.PodKey{pod("red", "a"), pod("red", "b")}, tracks, api.PodCaptureSpec{SnapLength: 100})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(maxWaiting + 10) {
		p.add(0, []api.PodCapturePacket{packet(100+i, "x", false)})
	}
	if err := p.release(false); err != nil || len(p.queue) != maxWaiting || p.written != 10 {
		t.Errorf("%v: %d wait, %d are written", err, len(p.queue), p.written)
	}
	p.add(1, []api.PodCapturePacket{packet(50, "late", false)})
	if err := p.release(false); err != nil || p.disorder != 1 {
		t.Errorf("%v: %d are counted as late", err, p.disorder)
	}
	for i := range p.queue {
		p.queue[i].since = p.queue[i].since.Add(-maxWait)
	}
	if err := p.release(false); err != nil || len(p.queue) != 0 || p.held != 0 {
		t.Errorf("%v: after long enough %d wait still", err, len(p.queue))
	}
}

// TestCaptureAsksForWhatItIsTold: what cannot be is refused before anybody is asked, and the file is for its owner.
func TestCaptureAsksForWhatItIsTold(t *testing.T) {
	t.Parallel()
	good := captureOptions{
		iface: "eth0", direction: "both", snap: 1500, bytes: 1000, hosts: []string{"10.0.0.1", "fd00::1"}, nets: []string{"10.1.2.3/16"},
		ports: []uint{80},
	}
	s, err := good.spec()
	if err != nil || strings.Join(s.Prefixes, " ") != "10.0.0.1/32 fd00::1/128 10.1.0.0/16" || len(s.ID) < 16 || s.Ports[0] != 80 {
		t.Errorf("%v: %+v", err, s)
	}
	for says, change := range map[string]func(*captureOptions){
		"--host": func(o *captureOptions) { o.hosts = []string{"web"} }, "--net": func(o *captureOptions) { o.nets = []string{"10.0.0.1"} },
		"--port": func(o *captureOptions) { o.ports = []uint{65536} }, "--protocol": func(o *captureOptions) { o.protocols = []string{"http"} },
		"--snaplen": func(o *captureOptions) { o.snap = 1 }, "--direction": func(o *captureOptions) { o.direction = "up" },
		"--duration": func(o *captureOptions) { o.duration = 2 * time.Hour }, "--interface": func(o *captureOptions) { o.iface = "a b" },
		"--bytes": func(o *captureOptions) { o.bytes = 1 << 40 },
	} {
		o := good
		change(&o)
		if _, err := o.spec(); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	path := filepath.Join(t.TempDir(), "packets")
	if err := os.WriteFile(path, []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	file, err := captureOptions{file: path}.create(nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	if about, err := os.Stat(path); err != nil || about.Mode().Perm() != 0o600 || about.Size() != 0 {
		t.Errorf("%v: the file is %v", err, about)
	}
	for says, args := range map[string][]string{
		"say where packets go": {"red/web"}, "is named twice": {"red/web", "red/web", "-w", "-"}, "NAMESPACE/NAME": {"web", "-w", "-"},
	} {
		cmd := captureCommand()
		cmd.SetArgs(args)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sync/errgroup"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// senders are how many packets of each IPv4 address a file has on each of its interfaces, which are named by their pods.
func senders(path string) (map[string]map[netip.Addr]int, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	r, err := pcapgo.NewNgReader(file, pcapgo.NgReaderOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]map[netip.Addr]int{}
	for {
		data, about, err := r.ReadPacketData()
		if err != nil {
			break
		}
		if ip, ok := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.Default).NetworkLayer().(*layers.IPv4); ok {
			i, err := r.Interface(about.InterfaceIndex)
			if err != nil {
				return nil, err
			}
			name, _, _ := strings.Cut(i.Name, " ")
			if out[name] == nil {
				out[name] = map[netip.Addr]int{}
			}
			from, _ := netip.AddrFromSlice(ip.SrcIP.To4())
			out[name][from]++
		}
	}
	return out, nil
}

// TestCaptureByTheAPI: by a kubeconfig alone the admin of a namespace gets the packets of its pods, each with its pod; none of
// those that pods with the same addresses in another Network send at the same time. Nobody else gets them, nor does who may only
// edit.
func TestCaptureByTheAPI(t *testing.T) {
	t.Parallel()
	const red, blue = "capture-red", "capture-blue"
	specs := []cluster.PodSpec{}
	for _, ns := range []string{red, blue} {
		env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
		env.Namespace(t, ns, ns)
		specs = append(specs, cluster.PodSpec{Namespace: ns, Name: "one", Node: "n1", NICs: `[{"ip":"10.0.0.71"}]`},
			cluster.PodSpec{Namespace: ns, Name: "two", Node: "n2", NICs: `[{"ip":"10.0.0.72"}]`})
	}
	var keys []*corev1.Pod
	for _, s := range specs {
		keys = append(keys, env.Pod(t, s))
	}
	env.WaitReady(t, keys...)
	redAdmin, blueAdmin, editor := env.named(t, red, "capturer", "admin"), env.named(t, blue, "capturer", "admin"), env.named(t, red, "editor",
		"edit")
	file := filepath.Join(t.TempDir(), "packets")
	one, two := netip.MustParseAddr("10.0.0.71"), netip.MustParseAddr("10.0.0.72")
	cluster.Eventually(t, cluster.Patience, "packets of the Network's own pods are captured, and no others", func(ctx context.Context) error {
		var doing errgroup.Group
		doing.Go(func() error {
			out, err := env.atoll(ctx, redAdmin, "capture", red+"/one", red+"/two", "--protocol", "icmp", "--duration", "6s", "-w", file)
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
		// In red one sends, in blue two: whose packets they are, shows in who asks.
		doing.Go(func() error {
			_, err := env.atoll(ctx, redAdmin, "ping", red+"/one", red+"/two", "-c", "20", "-i", "200ms", "-s", "100")
			return err
		})
		doing.Go(func() error {
			_, err := env.atoll(ctx, blueAdmin, "ping", blue+"/two", blue+"/one", "-c", "20", "-i", "200ms", "-s", "700")
			return err
		})
		if err := doing.Wait(); err != nil {
			return err
		}
		got, err := senders(file)
		if err != nil {
			return err
		}
		large, err := larger(file, 500)
		if err != nil {
			return err
		}
		if large > 0 {
			t.Fatalf("%d packets of Network %s are among those of %s", large, blue, red)
		}
		for _, pod := range []string{red + "/one", red + "/two"} {
			if got[pod][one] == 0 || got[pod][two] == 0 {
				return fmt.Errorf("of pod %s there are packets of %v", pod, got[pod])
			}
		}
		return nil
	})
	cluster.Eventually(t, cluster.Patience, "the control: in their own Network the others are captured", func(ctx context.Context) error {
		var doing errgroup.Group
		doing.Go(func() error {
			_, err := env.atoll(ctx, blueAdmin, "capture", blue+"/one", "--protocol", "icmp", "--duration", "6s", "-w", file)
			return err
		})
		doing.Go(func() error {
			_, err := env.atoll(ctx, blueAdmin, "ping", blue+"/two", blue+"/one", "-c", "20", "-i", "200ms", "-s", "700")
			return err
		})
		if err := doing.Wait(); err != nil {
			return err
		}
		large, err := larger(file, 500)
		if err == nil && large == 0 {
			err = fmt.Errorf("there is none")
		}
		return err
	})
	for name, c := range map[string]struct {
		kubeconfig, pod, says string
	}{
		"another tenant's pod":        {redAdmin, blue + "/one", `cannot create resource "pods/capture"`},
		"another's that is not":       {redAdmin, blue + "/none", `cannot create resource "pods/capture"`},
		"by who may only edit":        {editor, red + "/one", `cannot create resource "pods/capture"`},
		"of a pod that is not there":  {redAdmin, red + "/none", "there is no pod " + red + "/none"},
		"of an interface that is not": {redAdmin, red + "/one", "the pod has no interface eth7"},
	} {
		args := []string{"capture", c.pod, "--duration", "1s", "-w", file}
		if strings.Contains(c.says, "eth7") {
			args = append(args, "-i", "eth7")
		}
		out, err := env.atoll(t.Context(), c.kubeconfig, args...)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// larger is how many packets of a file are longer than so many bytes.
func larger(path string, size int) (count int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	r, err := pcapgo.NewNgReader(file, pcapgo.NgReaderOptions{})
	if err != nil {
		return 0, err
	}
	for {
		data, _, err := r.ReadPacketData()
		if err != nil {
			return count, nil
		}
		if len(data) > size {
			count++
		}
	}
}

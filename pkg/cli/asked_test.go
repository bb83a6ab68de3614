package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// TestInspectionGolden prints what the API inspect.atoll.dev tells. That it tells so is package inspect's to show, whose tests
// write the values.
func TestInspectionGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "inspect-*.json"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%d golden files: %v", len(files), err)
	}
	// These are printed in every format.
	every := map[string]bool{
		"cluster-well": true, "networks-two": true, "network-red": true, "pods-red": true, "pod-well": true,
		"ipams-two": true, "ipam-red": true, "ipamchecks-ill": true, "topologies-three": true, "topology-red": true,
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var answer answered
		switch strings.Split(name, "-")[1] {
		case "cluster":
			c := read[api.Cluster](t, text)
			now := time.Time{}
			if c.Status.Leader != nil {
				now = c.Status.Leader.Renewed.Time
			}
			answer = clusterAnswer(c, "", now)
		case "networks":
			answer = networksAnswer(read[api.NetworkList](t, text).Items, "")
		case "network":
			answer = networkAnswer(read[api.Network](t, text), "")
		case "ipams":
			answer = ipamsAnswer(read[api.IPAMList](t, text).Items, "")
		case "ipam":
			answer = ipamAnswer(read[api.IPAM](t, text), "")
		case "ipamchecks":
			answer = ipamChecksAnswer(read[api.IPAMCheckList](t, text).Items, "")
		case "topologies":
			answer = topologiesAnswer(read[api.TopologyList](t, text).Items, "", false, false)
		case "topology":
			one := read[api.Topology](t, text)
			answer = topologiesAnswer([]api.Topology{one}, "", true, false)
			answer.value = one
		case "pods":
			answer = podsAnswer(read[api.PodList](t, text).Items, "")
		case "pod":
			answer = podAnswer(read[api.Pod](t, text), "nobody answers")
		default:
			t.Fatalf("%s is of no kind", file)
		}
		formats := []string{formatTable, formatJSON}
		if every[strings.TrimPrefix(name, "inspect-")] {
			formats = append(formats, formatWide, formatYAML, formatName)
		}
		for _, format := range []string{formatDot, formatMermaid} {
			if answer.drawn != nil {
				formats = append(formats, format)
			}
		}
		for _, format := range formats {
			t.Run(name+"."+format, func(t *testing.T) {
				t.Parallel()
				var out, problems bytes.Buffer
				if err := (&asked{output: format}).print(&out, &problems, "it", answer); err != nil {
					t.Fatal(err)
				}
				if said := problems.String(); (answer.note != "") != strings.Contains(said, answer.note+"\n") {
					t.Errorf("beside it stands %q", said)
				}
				if format == formatJSON {
					golden(t, file, out.String())
					return
				}
				golden(t, filepath.Join("testdata", name+"."+format), out.String())
			})
		}
	}
}

func TestAges(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m1s", 25 * time.Hour: "25h0m", 49 * time.Hour: "2d",
	} {
		if got := age(d); got != want {
			t.Errorf("%s is written as %s, want %s", d, got, want)
		}
	}
}

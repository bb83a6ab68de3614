package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/lab"
	"github.com/atoll-net/atoll/test/sandbox"
)

// Sandbox says which sandbox a program measures in.
type Sandbox struct {
	sandbox.Options
	// Keep leaves it running.
	Keep bool
}

// Flags adds the flags of a sandbox to those of the program.
func (s *Sandbox) Flags() {
	flag.StringVar(&s.Name, "name", "atollbench", "the sandbox's name")
	flag.StringVar(&s.State, "state", "/var/lib/atoll-sandbox-bench", "the sandbox's directory")
	flag.StringVar(&s.Bin, "bin", "bin", "directory of Atoll's programs")
	flag.StringVar(&s.Source, "source", ".", "Atoll's source tree")
	flag.BoolVar(&s.Keep, "keep", false, "leave the sandbox running; the next run uses it again")
}

// Cluster is a sandbox that runs.
type Cluster struct {
	Box    *sandbox.Sandbox
	Config *rest.Config
	// Kube speaks protobuf.
	Kube     kubernetes.Interface
	Networks dynamic.ResourceInterface
	// Families are the processes whose descendants take part, for lab.StartMeter.
	Families []int
}

// downWithin bounds taking a sandbox down.
const downWithin = 2 * time.Minute

// Run runs f in the sandbox, which is taken down afterwards unless it is to be kept.
func (s Sandbox) Run(ctx context.Context, f func(*Cluster) error) (err error) {
	s.Program, s.Overlay = s.Bin+"/atoll-sandbox", sandbox.OverlaySingle
	box, err := sandbox.Up(ctx, s.Options, os.Stderr)
	if !s.Keep {
		defer func() {
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), downWithin)
			defer cancel()
			err = errors.Join(err, sandbox.Down(late, s.Options, os.Stderr))
		}()
	}
	if err != nil {
		return err
	}
	c := &Cluster{Box: box}
	if c.Config, err = box.RESTConfig(); err != nil {
		return err
	}
	dyn, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	c.Networks = dyn.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks"))
	binary := rest.CopyConfig(c.Config)
	binary.ContentType = apiruntime.ContentTypeProtobuf
	if c.Kube, err = kubernetes.NewForConfig(binary); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	if c.Families, err = lab.Families(ctx, box); err != nil {
		return err
	}
	return f(c)
}

// lookEvery is how often a condition is looked at.
const lookEvery = 50 * time.Millisecond

// Await waits until a condition holds; what names it in the error.
func Await(ctx context.Context, what string, holds func(context.Context) (bool, error)) error {
	if err := wait.PollUntilContextTimeout(ctx, lookEvery, lab.Patience, true, holds); err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}

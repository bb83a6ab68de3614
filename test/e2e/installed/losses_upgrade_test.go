//go:build e2e

package installed

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// anUpgrade is one between two really different sets of images: those of the commit before this one, and those of this one, each
// with its own manifests.
type anUpgrade struct {
	// from and to are kustomizations.
	from, to string
	// phases are what atoll upgrade said that it did, one after another.
	phases []phase
}

// phase is a step of an upgrade.
type phase struct {
	title        string
	began, ended time.Time
}

// upgradeEvent is the row of the upgrade. The cluster is brought to the older images before anything is asked.
func upgradeEvent() event {
	u := &anUpgrade{}
	return event{name: "upgraded from the commit before", prepare: u.prepare, happens: u.happens, judge: u.judge, takes: userspace}
}

const images = "ghcr.io/atoll-net/"

// prepare builds the images of the commit before, gives them to the nodes, and brings the cluster there.
func (u *anUpgrade) prepare(t *testing.T) {
	t.Helper()
	// In the control plane's place, /tmp is another.
	dir, err := os.MkdirTemp(filepath.Join(env.Root, "bin"), "before-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	source := filepath.Join(dir, "source")
	t.Logf("the older images are of %s", checkOutBefore(t, source))
	newer := tagOf(t, func(string) bool { return true })
	build := exec.CommandContext(t.Context(), "go", "run", "./images/release", "build", "-own", "-out="+filepath.Join(dir, "images"))
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build images of the commit before: %v\n%s", err, out)
	}
	archives, err := filepath.Glob(filepath.Join(dir, "images", "*.tar"))
	if err != nil || len(archives) < 2 {
		t.Fatalf("images of the commit before: %q, %v", archives, err)
	}
	for _, node := range env.Box.Nodes() {
		for _, archive := range archives {
			if out, err := env.Box.Exec(t.Context(), node, "ctr", "--namespace", "k8s.io", "images", "import", "--local", archive); err != nil {
				t.Fatalf("give %s to %s: %v\n%s", archive, node, err, out)
			}
		}
	}
	older := tagOf(t, func(tag string) bool { return tag != newer })
	u.from = kustomization(t, filepath.Join(dir, "from"), filepath.Join(source, "dist/overlays/sandbox"), older)
	u.to = kustomization(t, filepath.Join(dir, "to"), filepath.Join(env.Root, "dist/overlays/sandbox"), newer)
	t.Logf("from %s to %s", older, newer)
	if out, err := atoll(t.Context(), "upgrade", "-k", u.from, "--timeout="+installWithin.String()); err != nil {
		t.Fatalf("go to the older images: %v\n%s", err, out)
	}
	if has := imagesOf(t); len(has) == 0 || slices.ContainsFunc(has, func(i string) bool { return !strings.HasSuffix(i, ":"+older) }) {
		t.Fatalf("images before the upgrade: %q", has)
	}
}

// checkOutBefore makes a source tree of an older commit, and says which. Where there is none, as in a shallow clone, it is this
// commit's tree under another commit, so that all that carries the version differs.
func checkOutBefore(t *testing.T, dir string) string {
	t.Helper()
	git(t, env.Root, "clone", "--quiet", "--shared", "--no-checkout", env.Root, dir)
	seconds, err := strconv.ParseInt(git(t, dir, "show", "-s", "--format=%ct", "HEAD"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	// A version between tags tells the second of its commit, and an upgrade goes to a later version only.
	if before := git(t, dir, "rev-list", "-1", fmt.Sprintf("--before=%d", seconds-1), "HEAD"); before != "" {
		git(t, dir, "checkout", "--quiet", before)
		return "the commit before: " + git(t, dir, "show", "-s", "--format=%h %s")
	}
	git(t, dir, "checkout", "--quiet", "HEAD")
	at := fmt.Sprintf("%d +0000", seconds-3600)
	t.Setenv("GIT_COMMITTER_DATE", at)
	t.Setenv("GIT_AUTHOR_DATE", at)
	git(t, dir, "-c", "user.name=test", "-c", "user.email=test@atoll.dev", "commit",
		"--quiet", "--allow-empty", "--message=another version stamp")
	return "the same tree with another version stamp: there is no commit before this one here"
}

func git(t *testing.T, dir string, words ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", words...)
	cmd.Dir = dir
	var told bytes.Buffer
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(words, " "), err, told.String())
	}
	return strings.TrimSpace(string(out))
}

// tagOf is the one tag of a version that passes, of Atoll's images on a node.
func tagOf(t *testing.T, passes func(tag string) bool) string {
	t.Helper()
	out, err := env.Box.Exec(t.Context(), env.Box.Nodes()[0], "ctr", "--namespace", "k8s.io", "images", "ls", "-q")
	if err != nil {
		t.Fatal(err)
	}
	var tags []string
	for name := range strings.FieldsSeq(string(out)) {
		image, found := strings.CutPrefix(name, images+"atoll:")
		if found && image != "sandbox" && passes(image) {
			tags = append(tags, image)
		}
	}
	if len(tags) != 1 {
		t.Fatalf("versions of images on the node: %q, want one", tags)
	}
	return tags[0]
}

// kustomization is another one with a tag of its own.
func kustomization(t *testing.T, dir, base, tag string) string {
	t.Helper()
	relative, err := filepath.Rel(dir, base)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(
		"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [%s]\nimages:\n- {name: %satoll, newTag: %s}\n- "+
			"{name: %[2]sovn, newTag: %[3]s}\n",
		relative, images, tag)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// imagesOf are those of Atoll's running pods.
func imagesOf(t *testing.T) (out []string) {
	t.Helper()
	pods, err := env.Clients.Kube.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("read images: %v", err)
	}
	for _, p := range pods.Items {
		// One that is ending has been replaced: atoll-dns answers for some time more.
		if p.DeletionTimestamp != nil {
			continue
		}
		for _, c := range p.Spec.Containers {
			if strings.HasPrefix(c.Image, images) {
				out = append(out, c.Image)
			}
		}
	}
	return out
}

func (u *anUpgrade) happens(t *testing.T, _ scene) {
	t.Helper()
	steps := &stepTimes{last: time.Now()}
	if err := env.Atoll(t.Context(), steps, "upgrade", "-k", u.to, "--timeout="+installWithin.String()); err != nil {
		t.Fatalf("upgrade: %v", err)
	}
	u.phases = steps.phases
	haveTheirFlows(t)
	want := ":" + tagIn(t, u.to)
	if has := imagesOf(t); slices.ContainsFunc(has, func(i string) bool { return !strings.HasSuffix(i, want) }) {
		t.Errorf("images after the upgrade to %s: %q", want, has)
	}
}

func tagIn(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`newTag: (\S+)}`).FindStringSubmatch(string(text))
	if found == nil {
		t.Fatalf("no tag in %s", text)
	}
	return found[1]
}

// switches is the phase in which the nodes' switches are replaced.
const switches = "DaemonSet atoll-ovn-node"

// judge says what was lost in each phase, by when it was asked: nothing may be but while the switches are replaced.
func (u *anUpgrade) judge(t *testing.T, losses []loss) {
	t.Helper()
	if !slices.ContainsFunc(u.phases, func(p phase) bool { return p.title == switches }) {
		t.Fatalf("no phase %q: %+v", switches, u.phases)
	}
	for _, p := range u.phases {
		var words []string
		for _, l := range losses {
			n := 0
			for _, f := range l.Failures {
				if f.Asked.Before(p.began) || !f.Asked.Before(p.ended) {
					continue
				}
				n++
				if p.title != switches {
					t.Errorf("%s lost %s after %q began: %s", l.name, f.Asked.Sub(p.began).Round(time.Millisecond), p.title, f.Error)
				}
			}
			// Of many failures only the first are told one by one.
			words = append(words, fmt.Sprintf("%s %d", l.name, n))
		}
		fmt.Printf("upgrade, %s, %.1f s, lost: %s\n", p.title, p.ended.Sub(p.began).Seconds(), strings.Join(words, ", "))
	}
}

// stepTimes shows what is printed, and notes when each step of a command ended.
type stepTimes struct {
	mu     sync.Mutex
	rest   []byte
	last   time.Time
	phases []phase
}

// stepDone is the line of a step that has ended.
var stepDone = regexp.MustCompile(`^\[ *\d+/\d+\] ([^:]+?) +[0-9.]+m?s$`)

func (s *stepTimes) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, text...)
	for {
		line, rest, found := bytes.Cut(s.rest, []byte("\n"))
		if !found {
			break
		}
		s.rest = rest
		if step := stepDone.FindSubmatch(bytes.TrimSpace(line)); step != nil {
			s.phases = append(s.phases, phase{string(step[1]), s.last, time.Now()})
			s.last = time.Now()
		}
	}
	return os.Stdout.Write(text)
}

package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/inspect/connect"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// dumpPortsDesc is a command whose ports are told apart, beside those that there are tables of.
const dumpPortsDesc = "dump-ports-desc"

// kept is what of a command's output goes on: what concerns the pod, line by line as it is.
type kept struct {
	*podPorts
	command string
	to      io.Writer
	// last is a line that has not ended.
	last []byte
	// shown are how many flows, or ports, were kept, of all.
	shown, all int
	// shows: the port whose lines come is the pod's.
	shows bool
}

// Write implements io.Writer.
func (k *kept) Write(p []byte) (int, error) {
	k.last = append(k.last, p...)
	for {
		end := bytes.IndexByte(k.last, '\n')
		if end < 0 {
			return len(p), nil
		}
		if err := k.line(k.last[:end+1]); err != nil {
			return 0, err
		}
		k.last = k.last[end+1:]
	}
}

// flush hands on a last line that does not end.
func (k *kept) flush() error {
	if len(k.last) == 0 {
		return nil
	}
	return k.line(k.last)
}

func (k *kept) line(line []byte) error {
	keep := k.port
	if k.command == dumpFlows {
		keep = k.flow
	}
	if !keep(string(line)) {
		return nil
	}
	_, err := k.to.Write(line)
	return err
}

// flow keeps flows, and whatever is none: a head, an error.
func (k *kept) flow(line string) bool {
	f, err := parseBridgeFlow(strings.TrimSpace(line))
	if err != nil {
		return true
	}
	k.all++
	keep := k.concerns(f)
	if keep {
		k.shown++
	}
	return keep
}

// portHead begins what is said of a port, by dump-ports and by dump-ports-desc.
var portHead = regexp.MustCompile(`^ +(?:port +"?([^":]+)"?:|([^\s(]+)\(.*\): addr:)`)

// port keeps ports, of which each has several lines.
func (k *kept) port(line string) bool {
	switch m := portHead.FindStringSubmatch(line); {
	case m != nil:
		k.all++
		k.shows = slices.Contains(k.names, m[1]+m[2])
		if k.shows {
			k.shown++
		}
	case !strings.HasPrefix(line, " "):
		return true
	}
	return k.shows
}

// said is what was kept, in words.
func (k *kept) said() string {
	what := "ports"
	if k.command == dumpFlows {
		what = "flows"
	}
	said := fmt.Sprintf("%d of %d %s concern pod %s, on port %s of %s", k.shown, k.all, what, k.pod, strings.Join(k.words, ", "), k.bridge)
	if k.command == dumpFlows {
		if len(k.keys) == 0 {
			return said + ". No flow takes packets in there, so that those of its logical switch are not known. Next: atoll pod " + k.pod.String() +
				"; or --all, for all of the bridge"
		}
		var keys []string
		for _, key := range k.keys {
			keys = append(keys, fmt.Sprintf("metadata=%#x, reg14 or reg15=%#x", key.datapath, key.port))
		}
		said += " (" + strings.Join(keys, "; ") + ")"
	}
	return said + "; --all prints all of the bridge"
}

// keptOf has a command's output go through what keeps what concerns the pod; nil where all of it is to be seen.
func (o ofctlOptions) keptOf(ctx context.Context, q connect.TunnelQuery, pod client.PodPlace, cmd *exec.Cmd) (*kept, error) {
	args := cmd.Args[1:]
	command, _ := bridgeOf(args)
	if o.pod == "" || o.all || !slices.Contains([]string{dumpFlows, dumpPorts, dumpPortsDesc}, command) {
		return nil, nil
	}
	ports, err := portsOf(ctx, q, pod)
	if err != nil {
		return nil, err
	}
	if command == dumpFlows {
		err := ports.readKeys(func(question ...string) ([]byte, error) {
			return printedBy(ctx, cmd, append(protocolsOf(args), question...))
		})
		if err != nil {
			return nil, err
		}
	}
	k := &kept{podPorts: &ports, command: command, to: cmd.Stdout}
	cmd.Stdout = k
	return k, nil
}

// printedBy runs the program of cmd for a question of our own.
func printedBy(ctx context.Context, cmd *exec.Cmd, args []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ask := exec.CommandContext(ctx, cmd.Path, args...)
	var problems bytes.Buffer
	ask.Env, ask.Stderr = cmd.Env, &problems
	out, err := ask.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", ofctl, err, snapshot.Printable(strings.TrimSpace(problems.String())))
	}
	return out, nil
}

package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/client"
)

// waitPause is between two looks of status --wait.
const waitPause = time.Second

func statusCommand() *cobra.Command {
	var (
		o    asked
		wait bool
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show whether Atoll is well: components, leader, databases, nodes, and what is behind",
		Long: `Show the state of Atoll in the cluster: Deployments and DaemonSets, the controller that leads, OVN's
databases with their servers, certificates, and nodes. Then list what is not there yet, and each
problem with what to do.

The command asks the API inspect.atoll.dev. If the API does not answer, it says so, and shows what
Kubernetes itself knows.

Exit status: 0 all is well; 1 there is a problem, or the API does not answer; 2 the command could
not tell.`,
		Example: `  atoll status
  atoll status --wait --timeout 5m
  atoll status -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runStatus(cmd.Context(), o, wait, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.flags(cmd)
	cmd.Flags().BoolVar(&wait, "wait", false, "look until all is well, or --timeout is over")
	return cmd
}

func runStatus(ctx context.Context, o asked, wait bool, out, problems io.Writer) error {
	remote, err := o.remote()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	cluster, note, err := lookAtCluster(ctx, remote, wait)
	if err != nil {
		return whyNot("status", err)
	}
	if err := o.print(out, problems, "status", clusterAnswer(cluster, note, time.Now())); err != nil {
		return err
	}
	if !cluster.Status.Healthy || note != "" {
		return ErrUnhealthy
	}
	return nil
}

func clusterAnswer(c api.Cluster, note string, now time.Time) answered {
	return answered{
		value: c, names: []string{"cluster/" + c.Name}, note: note,
		table: func(text *strings.Builder, wide bool) { statusTable(text, c.Status, wide, now) },
	}
}

// lookAtCluster looks once, or until all is well. When the time is over, what was seen last counts.
func lookAtCluster(ctx context.Context, remote *client.Remote, wait bool) (cluster api.Cluster, note string, err error) {
	seen := false
	for {
		next, nextNote, nextErr := remote.Cluster(ctx)
		if ctx.Err() == nil || !seen {
			cluster, note, err = next, nextNote, nextErr
			seen = seen || err == nil
		}
		if !wait || (err == nil && cluster.Status.Healthy && note == "") {
			return cluster, note, err
		}
		select {
		case <-ctx.Done():
			return cluster, note, err
		case <-time.After(waitPause):
		}
	}
}

func statusTable(text *strings.Builder, s api.ClusterStatus, wide bool, now time.Time) {
	leader := "none"
	if s.Leader != nil {
		leader = s.Leader.Name
		if !wide {
			leader, _, _ = strings.Cut(leader, "_")
		}
		leader += ", for " + age(now.Sub(s.Leader.Since.Time))
	}
	columns(text, []string{"Answered by", s.Source}, []string{"Leader", leader})
	if len(s.Components) > 0 {
		lines := [][]string{{"COMPONENT", "READY", "IMAGE"}}
		for _, c := range s.Components {
			lines = append(lines, []string{c.Kind + "/" + c.Name, fmt.Sprintf("%d/%d", c.Ready, c.Wanted), c.Image})
		}
		section(text, lines)
	}
	if len(s.Databases) > 0 {
		lines := [][]string{{"DATABASE", "SERVER", "ROLE", "CONNECTED", "LAG"}}
		for _, d := range s.Databases {
			for _, server := range d.Servers {
				lines = append(lines, []string{
					d.Name, server.Address, role(d, server), word(server.Problem == "" && server.Connected), fmt.Sprint(server.Lag),
				})
			}
		}
		section(text, lines)
	}
	if len(s.Certificates) > 0 {
		lines := [][]string{{"CERTIFICATE", "ENDS IN"}}
		for _, c := range s.Certificates {
			lines = append(lines, []string{c.Name, age(c.Ends.Sub(now))})
		}
		section(text, lines)
	}
	if len(s.Nodes) > 0 {
		lines := [][]string{{"NODE", "READY", "AGENT", "CHASSIS", "PODS"}}
		for _, n := range s.Nodes {
			chassis := ""
			if n.Chassis != nil {
				chassis = word(*n.Chassis)
			}
			lines = append(lines, []string{n.Name, word(n.Ready), n.Agent, chassis, fmt.Sprint(n.Pods)})
		}
		section(text, lines)
	}
	ports := "not known"
	if s.Behind.Ports != nil {
		ports = fmt.Sprint(*s.Behind.Ports)
	}
	fmt.Fprintf(text, "\n%s, %s. Behind: Networks that are not Ready: %d; pods without an address: %d; ports that are not up: %s\n",
		model.Count(s.Networks, "Network"), model.Count(s.Pods, "pod"), s.Behind.Networks, s.Behind.Addresses, ports)
	if s.Healthy {
		fmt.Fprintln(text, "All is well.")
		return
	}
	lines := [][]string{{"PROBLEM", "WHAT", "NEXT"}}
	for _, p := range s.Problems {
		lines = append(lines, []string{p.Object, p.Message, p.Next})
	}
	text.WriteByte('\n')
	rows(text, lines)
	fmt.Fprintf(text, "\n%s.\n", model.Count(len(s.Problems), "problem"))
}

func role(d api.Database, s api.Server) string {
	switch {
	case s.Problem != "":
		return "does not answer"
	case !d.Clustered:
		return "alone"
	case s.Leader:
		return "leader"
	}
	return "follower"
}

func word(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// age is a time that has passed, as kubectl writes it: two units at most.
func age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func section(text *strings.Builder, lines [][]string) {
	text.WriteByte('\n')
	columns(text, lines...)
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/inspect/ipam"
	"github.com/atoll-net/atoll/pkg/inspect/resources"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

func ipamCommand() *cobra.Command {
	var o asked
	cmd := &cobra.Command{
		Use:   "ipam [NETWORK]",
		Short: "List ranges of addresses and how many are used; for one Network also who holds which address",
		Long: `List ranges of addresses: the subnets of each Network that you may get, the virtual addresses of its
Services and Gateways, and the cluster's faces. With a NETWORK, or system:cluster for the faces, also
list who holds which address.`,
		Example: `  atoll ipam
  atoll ipam red
  atoll ipam ` + api.ClusterPools + `
  atoll ipam check`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runIPAM(cmd.Context(), o, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.flags(cmd)
	completed(cmd, 1, &o.kubeconfig, networkNames)
	cmd.AddCommand(ipamCheckCommand())
	return cmd
}

func runIPAM(ctx context.Context, o asked, args []string, out, problems io.Writer) error {
	remote, err := o.remote()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if len(args) == 0 {
		all, note, err := remote.IPAMs(ctx)
		if err != nil {
			return whyNot("ipam", err)
		}
		return o.show(out, problems, "addresses", ipamsAnswer(all, note))
	}
	one, note, err := remote.IPAM(ctx, args[0])
	if err != nil {
		return whyNot("ipam", err)
	}
	return o.show(out, problems, "addresses", ipamAnswer(one, note))
}

func ipamsAnswer(all []api.IPAM, note string) answered {
	answer := answered{
		value: api.IPAMList{TypeMeta: listOf("IPAMList"), Items: all}, note: note,
		table: func(text *strings.Builder, wide bool) {
			if len(all) == 0 {
				fmt.Fprintln(text, "There is no Network that you may get.")
				return
			}
			lines := poolsHead(wide)
			for _, i := range all {
				lines = append(lines, poolLines(i, wide)...)
			}
			columns(text, lines...)
		},
	}
	for _, i := range all {
		answer.names = append(answer.names, "ipam/"+i.Name)
	}
	return answer
}

func poolsHead(wide bool) [][]string {
	head := []string{"NETWORK", "USE", "NAME", "RANGE", "SIZE", "RESERVED", "USED", "FREE", "BY"}
	if wide {
		head = append(head, "TENANT", "GATEWAY")
	}
	return [][]string{head}
}

func poolLines(i api.IPAM, wide bool) (lines [][]string) {
	network := i.Name
	if network == api.ClusterPools {
		network = ""
	}
	for _, p := range i.Status.Pools {
		reserved := ""
		if p.Reserved != nil {
			reserved = fmt.Sprint(*p.Reserved)
		}
		var by []string
		for _, c := range p.UsedBy {
			by = append(by, model.Count(int(c.Count), strings.ToLower(c.Kind)))
		}
		if p.Use == api.UseFaces {
			by = append(by, "in "+model.Count(int(p.Blocks), "block"))
		}
		line := []string{
			network, string(p.Use), p.Name, p.CIDR, large(p.Size), reserved, fmt.Sprint(p.Used), large(p.Free), strings.Join(by, ", "),
		}
		if wide {
			line = append(line, i.Status.Tenant, p.Gateway)
		}
		lines = append(lines, line)
	}
	return lines
}

// large is a count that may have been cut.
func large(n int64) string {
	if n >= maxCount {
		return "2^53 or more"
	}
	return fmt.Sprint(n)
}

// maxCount is where the API stops to count.
const maxCount = 1<<53 - 1

func ipamAnswer(i api.IPAM, note string) answered {
	return answered{
		value: i, names: []string{"ipam/" + i.Name}, note: note,
		table: func(text *strings.Builder, wide bool) {
			columns(text, append(poolsHead(wide), poolLines(i, wide)...)...)
			holders := [][]string{{"ADDRESS", "HOLDER", "USE", "NODE", "SINCE"}}
			for _, h := range i.Status.Holders {
				since := ""
				if h.Since != nil {
					since = h.Since.UTC().Format(time.RFC3339)
				}
				holders = append(holders, []string{h.Address, strings.ToLower(h.Kind) + " " + h.Name, string(h.Use), h.Node, since})
			}
			table(text, holders)
		},
	}
}

type ipamCheckOptions struct {
	asked
	settle time.Duration
}

// errNotChecked is that nothing was found where not all was looked at.
var errNotChecked = errors.New("nothing was found, and not all was looked at")

func ipamCheckCommand() *cobra.Command {
	var o ipamCheckOptions
	cmd := &cobra.Command{
		Use:   "check [NETWORK]",
		Short: "Find addresses that leak, that two objects have, or that are in no range; and ranges that overlap",
		Long: `Compare the addresses written on pods, nodes, Services, Gateways and Networks with each other and
with OVN's ports: of one Network, or of all that you may get. The findings:

    Leak         nothing that exists has the address
    Duplicate    two objects have the address in one Network, or have one face
    OutOfRange   the address is in none of its ranges
    PortDiffers  OVN's port has other addresses than its pod or node
    Overlap      ranges overlap that must not

Each finding names the object and says what to do. A finding counts only if it lasts for --settle.
The command writes nothing. The same address in two Networks is no finding.

Exit status: 0 nothing is wrong; 1 there are findings; 2 the command could not look, or found nothing
and did not see everything.`,
		Example: `  atoll ipam check
  atoll ipam check red`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runIPAMCheck(cmd.Context(), o, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.flags(cmd)
	completed(cmd, 1, &o.kubeconfig, networkNames)
	cmd.Flags().DurationVar(&o.settle, "settle", 5*time.Second, "how long a finding must last to count")
	return cmd
}

func runIPAMCheck(ctx context.Context, o ipamCheckOptions, args []string, out, problems io.Writer) error {
	remote, err := o.remote()
	if err != nil {
		return err
	}
	if o.settle >= o.timeout {
		return errors.New("--settle must be shorter than --timeout")
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	look := func(ctx context.Context) ([]api.IPAMCheck, string, error) {
		if len(args) == 0 {
			return client.List(ctx, remote, resources.IPAMChecks(), "")
		}
		one, note, err := client.Get(ctx, remote, resources.IPAMChecks(), "", args[0])
		return []api.IPAMCheck{one}, note, err
	}
	all, note, err := ipam.Settle(ctx, o.settle, look)
	if err != nil {
		return whyNot("ipam check", err)
	}
	if err := o.print(out, problems, "check", ipamChecksAnswer(all, note)); err != nil {
		return err
	}
	if found, unchecked := outcome(all); found > 0 {
		return ErrDifferences
	} else if unchecked != "" {
		return fmt.Errorf("ipam check: %w: %s. Next: atoll status", errNotChecked, unchecked)
	}
	return nil
}

// outcome is how much is wrong, and what was not looked at.
func outcome(all []api.IPAMCheck) (findings int, unchecked string) {
	for _, c := range all {
		findings += len(c.Status.Findings)
		unchecked = c.Status.Problem
	}
	return findings, unchecked
}

func ipamChecksAnswer(all []api.IPAMCheck, note string) answered {
	answer := answered{
		value: api.IPAMCheckList{TypeMeta: listOf("IPAMCheckList"), Items: all}, note: note,
		table: func(text *strings.Builder, wide bool) { ipamChecksTable(text, all, wide) },
	}
	for _, c := range all {
		answer.names = append(answer.names, "ipamcheck/"+c.Name)
	}
	return answer
}

func ipamChecksTable(text *strings.Builder, all []api.IPAMCheck, wide bool) {
	findings, unchecked := outcome(all)
	lines := [][]string{{"FINDING", "NETWORK", "ADDRESS", "OBJECT", "WHAT IS WRONG, AND WHAT TO DO"}}
	networks, addresses := 0, int64(0)
	for _, c := range all {
		network := c.Name
		if network == api.ClusterPools {
			network = ""
		} else {
			networks++
		}
		addresses += c.Status.Addresses
		for _, f := range c.Status.Findings {
			lines = append(lines, []string{string(f.Kind), network, f.Address, f.Object, f.Message}, []string{"", " ", " ", " ", "Next: " + f.Next})
		}
	}
	shown := lines
	if !wide {
		shown = lines[:min(len(lines), 1+2*maxLines)]
	}
	if findings > 0 {
		rows(text, shown)
		if more := (len(lines) - len(shown)) / 2; more > 0 {
			fmt.Fprintf(text, "and %d more (-o wide has all)\n", more)
		}
		fmt.Fprintln(text)
	}
	fmt.Fprintf(text, "%s, of %s in %s.", model.Count(findings, "finding"), countOf(addresses, "address", "addresses"),
		model.Count(networks, "Network"))
	if unchecked != "" {
		fmt.Fprintf(text, " Not all was looked at: %s.", snapshot.Printable(unchecked))
	}
	fmt.Fprintln(text)
}

func countOf(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Package isolation has the rule by which a Network, or a Tenant, is isolated from others hard or soft.
//
//	a Network as its owner wrote it, whom it reaches and who reaches it --OfNetwork, TowardsOthers--> a verdict
//	the verdicts on a Tenant's Networks, and where its pods are besides --OfTenant--> a verdict
//
// It judges what is configured. What must stay true: nothing is hard that leaves a way between pods of two owners, other than by the
// infrastructure, which is trusted, and by what they publish outside of the cluster.
package isolation

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// named is how many a message names before it only counts them.
const named = 3

// Network is what of a Network decides.
type Network struct {
	*model.Network
	// Default: it is the cluster's default one.
	Default bool
	// Consumers are the Networks whose pods reach its own, and Providers those whose pods its own reach.
	Consumers, Providers []Peer
	// Answering are others whose pods answer its pods' questions for names.
	Answering []Peer
	// Privileged are the namespaces that may attach pods with all the rights of their nodes, sorted; without those that are infrastructure.
	Privileged []string
	// Beyond are the namespaces of pods in it that have such rights now, sorted, without those that are infrastructure; BeyondPods
	// is how many pods.
	Beyond     []string
	BeyondPods int
}

// Equal reports whether the verdicts on two are the same, since what decides is. What a Network's owner wrote is one and the
// same, or else taken for something else.
func (n Network) Equal(other Network) bool {
	return n.Network == other.Network && n.Default == other.Default &&
		slices.Equal(n.Consumers, other.Consumers) && slices.Equal(n.Providers, other.Providers) && slices.Equal(n.Answering, other.Answering) &&
		slices.Equal(n.Privileged, other.Privileged) && slices.Equal(n.Beyond, other.Beyond) && n.BeyondPods == other.BeyondPods
}

// Peer is another Network.
type Peer struct{ Network, Tenant string }

// finding is something that opens a way to a Network's pods, or from them. dns: also to names.
type finding struct {
	reason, message string
	dns             bool
}

// OfNetwork judges a Network towards all who are not in it.
func OfNetwork(n Network) model.Isolation {
	return verdict(n.findings())
}

// TowardsOthers judges a Network towards all who are not its tenant's.
func TowardsOthers(n Network) model.Isolation {
	own := func(p Peer) bool { return p.Tenant == n.Tenant }
	for _, peers := range []*[]Peer{&n.Consumers, &n.Providers, &n.Answering} {
		*peers = slices.DeleteFunc(slices.Clone(*peers), own)
	}
	return verdict(n.findings())
}

func (n Network) findings() (out []finding) {
	add := func(is bool, f finding) {
		if is {
			out = append(out, f)
		}
	}
	add(n.Default, finding{
		model.ReasonDefaultNetwork,
		"it is the AtollConfig's defaultNetwork: all namespaces without a Network of their own share it, and the cluster's DNS: give those " +
			"that are to be isolated a Network of type vpc", true,
	})
	add(n.Type != model.VPC, finding{
		model.ReasonFlatNetwork,
		"spec.type is flat: its pods share addresses with the nodes and with other flat Networks, and the cluster's " +
			"DNS: make a Network of type vpc", true,
	})
	add(!n.admitsOwn(), finding{
		model.ReasonForeignNamespaces,
		fmt.Sprintf("spec.allowedNamespaces may admit namespaces that are not those of tenant %q: leave it out, or add %s: %s to its matchLabels",
			n.Tenant, model.LabelTenant, n.Tenant), true,
	})
	add(n.Infra == model.InfraDirect, finding{
		model.ReasonInfraAccessDirect,
		"spec.infraAccess is direct: its pods reach nodes, the pods of the default Network and the cluster's DNS: set it to services or none",
		true,
	})
	add(n.Type == model.VPC && !n.Default && n.Ingress == model.InfraIngressAll, finding{
		model.ReasonInfraIngressAll,
		"spec.infraIngress is All: every pod of the default Network reaches its pods: set it to Infrastructure or None", false,
	})
	add(len(n.Consumers) > 0, finding{
		model.ReasonServesOthers, fmt.Sprintf("spec.compatibleWith lets pods of %s reach its pods, and know its names: take them out of it",
			list(n.Consumers)), true,
	})
	add(len(n.Providers) > 0, finding{
		model.ReasonUsesOthers,
		fmt.Sprintf(
			"its pods reach pods of %s, and know their names: take these out of spec.uses, spec.usesAddressesOf and spec.usesServiceCIDRs, or "+
				"this one out of their spec.compatibleWith", list(n.Providers)), true,
	})
	add(len(n.Answering) > 0, finding{
		model.ReasonAnsweredByOthers,
		fmt.Sprintf("pods of %s answer its questions for names (spec.dns.service): they learn what its pods ask for, and say where they go: "+
			"name a Service of its own, or set spec.dns.mode to node", list(n.Answering)), true,
	})
	add(len(n.Privileged)+len(n.Beyond) > 0, finding{model.ReasonPrivilegedPods, strings.Join(n.privileged(), "; "), true})
	return out
}

// privileged says whose pods may have all that their nodes have.
func (n Network) privileged() (out []string) {
	if len(n.Privileged) > 0 {
		out = append(out,
			fmt.Sprintf("pods of namespaces %s may join and be privileged, and so have all that their node has: set their label %s to baseline, "+
				"or keep them out by spec.allowedNamespaces", first(quoted(n.Privileged), ", "), model.LabelPodSecurity))
	}
	if len(n.Beyond) > 0 {
		out = append(out,
			fmt.Sprintf(
				"%s of namespaces %s have more than the Pod Security level baseline gives, and so perhaps all that their node has: they were there "+
					"before their namespace was held to it: delete them, or have them ask for less", model.Count(n.BeyondPods, "pod"),
				first(quoted(n.Beyond), ", ")))
	}
	return out
}

// admitsOwn reports whether a tenant's Network admits no namespaces but the tenant's, whatever labels there are. Who may attach to one
// without a tenant is inside by that.
func (n Network) admitsOwn() bool {
	return n.Tenant == "" || n.Allowed == nil || slices.ContainsFunc(n.Allowed.Requirements, func(r match.Requirement) bool {
		return r.Key == model.LabelTenant && r.Op == match.In && slices.Equal(r.Values, []string{n.Tenant})
	})
}

// Walls are those of one Network of a Tenant towards others; nil while nothing is known of them.
type Walls struct {
	Network   string
	Isolation *model.Isolation
}

// OfTenant judges a Tenant with these Networks, sorted, towards all who are not the Tenant's. Elsewhere are the Networks of
// others where its namespaces or pods are, sorted. It is nil while there is no Network, or one of which nothing is known.
func OfTenant(own []Walls, elsewhere []string) *model.Isolation {
	unknown := func(w Walls) bool { return w.Isolation == nil }
	if len(own) == 0 || slices.ContainsFunc(own, unknown) {
		return nil
	}
	var all []finding
	byReason := map[string][]string{}
	for _, w := range own {
		for _, r := range w.Isolation.Reasons {
			byReason[r.Reason] = append(byReason[r.Reason], fmt.Sprintf("Network %q: %s", w.Network, r.Message))
		}
	}
	for reason, messages := range byReason {
		all = append(all, finding{reason: reason, message: first(messages, "; ")})
	}
	if len(elsewhere) > 0 {
		all = append(all, finding{
			model.ReasonPodsElsewhere,
			fmt.Sprintf("namespaces of the Tenant name Networks that are not its own (label %s), or pods of theirs are there: %s. Have them name "+
				"the Tenant's, or give the Networks to it (spec.tenant)",
				model.LabelNetwork, first(quoted(elsewhere), ", ")),
			true,
		})
	}
	out := verdict(all)
	if slices.ContainsFunc(own, func(w Walls) bool { return w.Isolation.DNS == model.Soft }) {
		out.DNS = model.Soft
	}
	return &out
}

// verdict is hard without findings. Each of them lets pods meet.
func verdict(findings []finding) model.Isolation {
	out := model.Isolation{Pods: model.Hard, DNS: model.Hard, Overall: model.Hard}
	for _, f := range findings {
		if out.Pods, out.Overall = model.Soft, model.Soft; f.dns {
			out.DNS = model.Soft
		}
		out.Reasons = append(out.Reasons, model.Problem{Reason: f.reason, Message: f.message})
	}
	slices.SortFunc(out.Reasons, func(a, b model.Problem) int { return cmp.Compare(a.Reason, b.Reason) })
	return out
}

// Changed returns the Event for an owner whose verdict differs from the last one reported; nil if there is nothing to report.
func Changed(before model.Hardness, now *model.Isolation) *model.Problem {
	switch {
	case now == nil, before == "", before == now.Overall:
		return nil
	case now.Overall == model.Hard:
		return &model.Problem{Reason: model.ReasonIsolationHard, Message: "isolation is hard now, and was soft"}
	}
	var words []string
	for _, r := range now.Reasons {
		words = append(words, r.Message)
	}
	return &model.Problem{Reason: model.ReasonIsolationSoft, Message: "isolation is soft now, and was hard: " + strings.Join(words, "; ")}
}

func quoted(names []string) (out []string) {
	for _, name := range names {
		out = append(out, strconv.Quote(name))
	}
	return out
}

func list(peers []Peer) string {
	var words []string
	for _, p := range peers {
		word := fmt.Sprintf("Network %q", p.Network)
		if p.Tenant != "" {
			word += fmt.Sprintf(" (tenant %s)", p.Tenant)
		}
		words = append(words, word)
	}
	return first(words, ", ")
}

// first joins the first words, and counts the others.
func first(words []string, between string) string {
	text := strings.Join(words[:min(len(words), named)], between)
	if more := len(words) - named; more > 0 {
		text += fmt.Sprintf("%sand %d more", between, more)
	}
	return text
}

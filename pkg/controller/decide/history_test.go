package decide_test

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// TestAnyHistoryEndsAsAFreshStart: whatever happens to the cluster, and however the controller comes to see it, it ends with what
// a controller has that starts from nothing with the objects as they are then. See compare for what that is.
//
// make histories tries 200,000. A failure prints a short history that fails, and how to run it again.
func TestAnyHistoryEndsAsAFreshStart(t *testing.T) {
	// Package rapid reads these before Go's test cache notices what is read.
	t.Logf("RAPID_SEED=%s RAPID_CHECKS=%s", os.Getenv("RAPID_SEED"), os.Getenv("RAPID_CHECKS"))
	// Else a fifth of the time is the collection of garbage.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	rapid.Check(t, anyHistory)
}

// FuzzAnyHistoryEndsAsAFreshStart looks for such a history with the fuzzer.
func FuzzAnyHistoryEndsAsAFreshStart(f *testing.F) { f.Fuzz(rapid.MakeFuzz(anyHistory)) }

func anyHistory(t *rapid.T) {
	h := drawHistory(t)
	seed := rapid.Uint64().Draw(t, "dice")
	dice := rand.New(rand.NewPCG(seed, 0))
	// In every second history Networks have to wait.
	h.settings.changes = int(seed % 2)
	asItIs := h.play(t, "as it is", h.batches, nil)
	// What comes twice changes nothing, not even who gets which address.
	twice := h.play(t, "everything twice", doubled(h.batches), nil)
	same(t, "as it is", asItIs, "everything twice", twice)
	sameWords(t, asItIs, twice)
	h.play(t, "split", split(h.batches), nil)
	h.play(t, "split in another order", shuffled(h.batches, dice), nil)
	h.play(t, "squashed", squashed(h.batches, dice), nil)
	h.play(t, "with restarts", h.batches, dice)
}

// play plays batches to a controller, and compares where it ends with a fresh start. With dice, controllers die between batches, and
// the next ones go on.
func (h *history) play(t *rapid.T, how string, batches []batch, dice *rand.Rand) *world {
	w := h.world(t, how)
	for _, b := range batches {
		w.state.Turn(b.moment)
		for _, s := range b.steps {
			s.do(w)
		}
		if dice != nil && dice.IntN(4) == 0 {
			w.begin(w.cluster)
		} else if dice != nil && dice.IntN(3) == 0 {
			// It dies before the database has what it wants.
			w.state.Apply(w.Take())
			w.begin(w.cluster)
		}
		w.settle()
		consented(t, how, w)
	}
	// What is left for a while only has been.
	w.turn(time.Unix(1e6, 0))
	distinct(t, how, w)
	unambiguous(t, how, w)
	fresh := h.world(t, how+", a fresh start")
	fresh.begin(w.clone())
	fresh.settle()
	fresh.turn(time.Unix(1e6, 0))
	same(t, how, w, "a fresh start", fresh)
	// What is said is the same from the first word, so that nothing is written.
	for name := range fresh.networks {
		for _, s := range fresh.reports[name] {
			if !reflect.DeepEqual(s, w.statuses[name]) {
				t.Fatalf("%s: a fresh start says of Network %s: %+v; it was %+v", how, name, s, w.statuses[name])
			}
		}
	}
	for about, told := range fresh.eventsBy {
		if slices.ContainsFunc(told, aboutIsolation) {
			t.Fatalf("%s: a fresh start tells %s anew of a verdict that the status tells: %+v", how, about, told)
		}
	}
	if fresh.patches != 0 {
		t.Fatalf("%s: a fresh start wrote %d annotations", how, fresh.patches)
	}
	return w
}

func aboutIsolation(p model.Problem) bool {
	return p.Reason == model.ReasonIsolationHard || p.Reason == model.ReasonIsolationSoft
}

// world is where a history is played.
func (h *history) world(t *rapid.T, how string) *world {
	settings := withFaces("100.64.0.0/10")
	if h.settings.small {
		// Two nodes have faces, and each has two.
		settings = withFaces("100.64.0.0/29")
		settings.FaceBlock = 2
	}
	settings.MaxJoined, settings.NetworkChanges = h.settings.joined, h.settings.changes
	settings.DNS = model.ServiceKey{Namespace: "x", Name: "db"}
	w := &world{cluster: newCluster(), settings: settings}
	w.showing = func(name string, s model.NetworkStatus) {
		if n := w.networks[name]; n != nil && s.ObservedGeneration == n.Generation {
			w.truthful(t, how, "Network "+n.UID, nb.NetworkOwner(name), n.Generation, claims(s.Conditions, model.ConditionReady))
		}
	}
	w.showingGateway = func(key model.GatewayKey, s model.GatewayStatus) {
		if g := w.gateways[key]; g != nil && s.ObservedGeneration == g.Generation {
			w.truthful(t, how, "Gateway "+g.UID, nb.GatewayOwner(key.Namespace, key.Name), g.Generation,
				claims(s.Conditions, model.ConditionProgrammed))
		}
	}
	w.begin(w.cluster)
	return w
}

// begin has a controller start with what the API server holds.
func (w *world) begin(c *cluster) {
	c.showing, c.showingGateway, w.cluster = w.showing, w.showingGateway, c
	// What the next one does not want is wanted no more.
	clear(w.views)
	clear(w.mirrors)
	clear(w.tenants.roles)
	left := w.graph
	w.graph, w.reached = graph.New(), map[string]int64{}
	w.state = decide.NewState(w.settings, w.graph, w.cluster)
	if left != nil {
		w.state.Connected(rowsOf(left))
	}
	w.Take()
	w.replay(w.namespaces)
	w.state.Hold()
	w.state.Apply(w.Take())
	w.commit()
	w.state.Compared()
}

// clone is the API server with the same objects, to which nobody has said anything.
func (c *cluster) clone() *cluster {
	out := newCluster()
	maps.Copy(out.namespaces, c.namespaces)
	maps.Copy(out.nodes, c.nodes)
	maps.Copy(out.services, c.services)
	maps.Copy(out.slices, c.slices)
	maps.Copy(out.classes, c.classes)
	maps.Copy(out.gateways, c.gateways)
	maps.Copy(out.routes, c.routes)
	maps.Copy(out.pods, c.pods)
	maps.Copy(out.networks, c.networks)
	maps.Copy(out.policies, c.policies)
	out.tenants = c.tenants.cloned()
	return out
}

// truthful fails when something is said to be ready as its owner wants it since a generation, and the database has never had that.
func (w *world) truthful(t *rapid.T, how, what string, owner nb.Owner, generation int64, ready bool) {
	switch before, had := w.reached[what]; {
	case had && before == generation:
	case !w.graph.Busy(owner):
		w.reached[what] = generation
	case ready:
		t.Fatalf("%s: %s is ready at generation %d before the database has it", how, what, generation)
	}
}

func claims(conditions []model.Condition, kind string) bool {
	return slices.ContainsFunc(conditions, func(c model.Condition) bool { return c.Type == kind && c.Status })
}

// doubled has each step seen twice, and after each batch everything that is there once more.
func doubled(batches []batch) []batch {
	var out []batch
	again := step{"everything", func(w *world) { w.replay(w.namespaces) }}
	for _, b := range batches {
		var steps []step
		for _, s := range b.steps {
			steps = append(steps, s, s)
		}
		out = append(out, batch{steps, b.moment}, batch{[]step{again}, b.moment})
	}
	return out
}

// split has each step seen alone.
func split(batches []batch) []batch {
	var out []batch
	for _, b := range batches {
		for _, s := range b.steps {
			out = append(out, batch{[]step{s}, b.moment})
		}
	}
	return out
}

// shuffled has the steps of each batch seen alone, those on different objects in any order.
func shuffled(batches []batch, dice *rand.Rand) []batch {
	var out []batch
	for _, b := range batches {
		place := map[string]int{}
		for _, s := range b.steps {
			if _, has := place[s.on]; !has {
				place[s.on] = dice.IntN(100)
			}
		}
		steps := slices.Clone(b.steps)
		slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(place[a.on], place[b.on]) })
		out = append(out, split([]batch{{steps, b.moment}})...)
	}
	return out
}

// squashed has some batches seen at once.
func squashed(batches []batch, dice *rand.Rand) []batch {
	var out []batch
	for _, b := range batches {
		if len(out) > 0 && dice.IntN(4) > 0 {
			last := &out[len(out)-1]
			last.steps, last.moment = slices.Concat(last.steps, b.steps), b.moment
			continue
		}
		out = append(out, b)
	}
	return out
}

// consented fails when pods of a Network reach another Network's though the owners do not both want that now: a consent that is
// withdrawn ends at once, also while something else of the Network waits.
func consented(t *rapid.T, how string, w *world) {
	for name, n := range w.networks {
		for _, other := range w.statuses[name].Compatibility {
			provider, consumer := n, w.networks[other.Network]
			if other.Uses {
				provider, consumer = consumer, provider
			}
			if other.State != model.CompatibilityActive {
				continue
			}
			if provider == nil || consumer == nil {
				t.Fatalf("%s: Network %s has to do with Network %s, which is not there", how, name, other.Network)
			}
			_, dials := consumer.UsesServiceCIDRs[provider.Name]
			accepts := provider.Tenant == consumer.Tenant || dials ||
				slices.Contains(slices.Concat(consumer.Uses, consumer.UsesAddressesOf), provider.Name)
			offers := slices.ContainsFunc(provider.CompatibleWith, func(p model.CompatiblePeer) bool {
				return p.All || p.Network == consumer.Name || p.Tenant != "" && p.Tenant == consumer.Tenant
			})
			if !accepts || !offers {
				t.Fatalf("%s: pods of Network %s reach those of Network %s without the consent of both owners:\n%s", how, consumer.Name, provider.Name,
					w.objects())
			}
		}
	}
}

// distinct fails when two pods, Services or Gateways of a Network have one address, or pods one face.
func distinct(t *rapid.T, how string, w *world) {
	held := map[string]string{}
	hold := func(place, who string) {
		if other, taken := held[place]; taken {
			t.Fatalf("%s: %s and %s both have %s", how, who, other, place)
		}
		held[place] = who
	}
	for key, p := range w.pods {
		for _, a := range p.Assigned {
			if !w.hasPort(*p) {
				continue
			}
			hold(a.Network+" "+a.Addresses[0].Addr().String(), key.String())
			if n := w.networks[a.Network]; (len(a.Faces) == 0) != (a.Network == w.settings.Network || n.Type == model.Flat) {
				t.Fatalf("%s: %s in Network %s has the faces %v", how, key, a.Network, a.Faces)
			}
			for _, face := range a.Faces {
				hold(face.String(), key.String())
			}
		}
	}
	for key, s := range w.services {
		if s.Assigned == nil || s.Assigned.Refused {
			continue
		}
		a := s.Assigned.Addresses[0]
		hold(s.Assigned.NetworkUID+" "+a.String(), "Service "+key.String())
		n := w.networks[s.Assigned.Network]
		if n == nil || n.Name == w.settings.Network || !slices.ContainsFunc(n.ServiceCIDRs, func(p netip.Prefix) bool { return p.Contains(a) }) {
			t.Fatalf("%s: %s has %s of Network %+v", how, key, a, n)
		}
	}
	for key := range w.gateways {
		for place := range w.listens(key) {
			hold("listens on "+place, "Gateway "+key.Namespace+"/"+key.Name)
		}
	}
}

// unambiguous fails when a virtual address is in two load balancers of one switch: OVN would take either. What is published of
// Services outside of the cluster is left out: whoever gives that out may give it out twice.
func unambiguous(t *rapid.T, how string, w *world) {
	for _, ref := range w.graph.Refs() {
		if ref.Table != nb.TableLogicalSwitch {
			continue
		}
		held, dialled := map[string]string{}, map[string]string{}
		for _, group := range w.graph.Elements(nb.Set{Row: ref, Column: nb.ColumnLoadBalancerGroups}) {
			in := nb.Ref{Table: nb.TableLoadBalancerGroup, UUID: group}
			for _, uuid := range w.graph.Elements(nb.Set{Row: in, Column: nb.ColumnLoadBalancers}) {
				row, _ := w.graph.Row(nb.Ref{Table: nb.TableLoadBalancer, UUID: uuid})
				lb, is := row.(*nb.LoadBalancer)
				if !is {
					continue
				}
				for _, pair := range w.graph.Elements(nb.Set{Row: nb.RefOf(lb), Column: nb.ColumnVips}) {
					vip, _ := nb.SplitPair(pair)
					host, _, _ := strings.Cut(vip, ":")
					place := ptr.Deref(lb.Protocol, "") + " " + vip
					if other, taken := held[place]; taken && !slices.Contains(somePublished, host) {
						t.Fatalf("%s: %s is in %s and in %s", how, place, other, lb.Name)
					}
					held[place] = lb.Name
					// What leads clients of some places alone is not beside what leads everybody.
					if near := lb.Options[nb.OptionTemplate]; lb.Options["address-family"] != "ipv6" && !strings.HasSuffix(lb.Name, ":former") &&
						!slices.Contains(somePublished, host) {
						_, number, _ := strings.Cut(vip, ":")
						if near == "true" {
							number = portOf(w, number)
						}
						place := ptr.Deref(lb.Protocol, "") + " " + host + " " + number
						if other, taken := dialled[place]; taken && (other == "true") != (near == "true") {
							t.Fatalf("%s: %s leads everybody somewhere, and clients of some places, too", how, place)
						}
						dialled[place] = near
					}
				}
			}
		}
	}
}

// portOf is the port that a variable stands for, on whatever node has it; the variable itself when none has.
func portOf(w *world, variable string) string {
	for name := range w.nodes {
		facts, _ := w.graph.Facts(nb.PlaceOwner(name))
		for _, m := range facts.Members {
			if key, value := nb.SplitPair(m.Value); nb.TemplateMark+key == variable {
				return value
			}
		}
	}
	return variable
}

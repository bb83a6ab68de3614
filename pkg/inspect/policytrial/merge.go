package policytrial

import (
	"fmt"
	"maps"
	"slices"
)

// merge makes changes of what was found between pairs: what changes alike is one.
func (c *comparison) merge() {
	var all []Change
	for _, at := range c.order {
		found := c.pairs[at]
		denied, allowed := 0, 0
		for _, key := range slices.Sorted(maps.Keys(found.found)) {
			r := found.found[key]
			for _, change := range r.changes(at, found.ways) {
				if all = append(all, change); r.before.Allowed {
					denied += len(change.Ports)
				} else {
					allowed += len(change.Ports)
				}
			}
		}
		c.out.Denied, c.out.Allowed = c.out.Denied+denied, c.out.Allowed+allowed
		if denied > 0 {
			c.out.DeniedPairs++
		}
		if allowed > 0 {
			c.out.AllowedPairs++
		}
	}
	all = together(all, func(c *Change) (*[]*Group, []*Group) { return &c.From, c.To })
	all = together(all, func(c *Change) (*[]*Group, []*Group) { return &c.To, c.From })
	if len(all) > maxChanges {
		c.out.cut(fmt.Sprintf("%d of %d changes are told", maxChanges, len(all)))
		all = all[:maxChanges]
	}
	c.out.Changes = all
}

// changes are those of a row: one for all ways if it is the same on all.
func (r *row) changes(at pair, ways map[way]bool) (out []Change) {
	texts := map[string][]way{}
	for _, w := range []way{{true, false}, {false, false}, {true, true}, {false, true}} {
		if sets := r.ports[w]; len(sets) > 0 {
			text := PortsText(sets)
			texts[text] = append(texts[text], w)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(texts)) {
		alike := texts[text]
		one := Change{From: []*Group{at.from}, To: []*Group{at.to}, Ports: r.ports[alike[0]], Before: r.before, After: r.after}
		if len(alike) == len(ways) {
			out = append(out, one)
			continue
		}
		for _, w := range alike {
			if one.Face, one.Family = w.face, "IPv6"; w.v4 {
				one.Family = "IPv4"
			}
			out = append(out, one)
		}
	}
	return out
}

// together makes one of changes that differ in one end's group alone. ends gives the end that is put together, and the other one.
func together(all []Change, ends func(*Change) (grows *[]*Group, other []*Group)) []Change {
	var out []Change
	known := map[string]int{}
	for _, c := range all {
		grows, other := ends(&c)
		key := fmt.Sprintf("%v %s %t %v %v %v", other, c.Family, c.Face, c.Ports, c.Before, c.After)
		i, has := known[key]
		if !has {
			known[key] = len(out)
			out = append(out, c)
			continue
		}
		first, _ := ends(&out[i])
		*first = append(slices.Clone(*first), *grows...)
	}
	return out
}

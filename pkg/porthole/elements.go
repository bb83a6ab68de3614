package porthole

import (
	"fmt"

	"github.com/google/nftables"
	"sigs.k8s.io/knftables"
)

// element is what a pod has in a set, or in a map when it has a value.
type element struct {
	set        string
	key, value []byte
	// texts are key and value as people write them.
	texts [2]string
}

// elements of a pod.
func (p Pod) elements() []element {
	v := version(p.Own)
	own, face := p.Own.AsSlice(), p.Face.AsSlice()
	return []element{
		{set: setPods + v, key: own, texts: [2]string{p.Own.String()}},
		{set: mapOwn + v, key: face, value: own, texts: [2]string{p.Face.String(), p.Own.String()}},
		{set: mapFace + v, key: own, value: face, texts: [2]string{p.Own.String(), p.Face.String()}},
	}
}

// writePods adds pods to a table that is being written.
func writePods(t table, pods []Pod) {
	for _, pod := range pods {
		for _, e := range pod.elements() {
			if e.value == nil {
				t.tx.Add(&knftables.Element{Set: e.set, Key: e.texts[:1]})
			} else {
				t.tx.Add(&knftables.Element{Map: e.set, Key: e.texts[:1], Value: e.texts[1:]})
			}
		}
	}
}

// changePods removes and adds pods in the namespace of the calling thread, all or none. It speaks to the kernel itself: no
// program is run on a pod's way.
func changePods(gone, come []Pod) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	in := &nftables.Table{Name: tableName, Family: nftables.TableFamilyINet}
	change := func(pods []Pod, do func(*nftables.Set, []nftables.SetElement) error) error {
		for _, pod := range pods {
			for _, e := range pod.elements() {
				if err := do(&nftables.Set{Table: in, Name: e.set}, []nftables.SetElement{{Key: e.key, Val: e.value}}); err != nil {
					return fmt.Errorf("write element of %s: %w", e.set, err)
				}
			}
		}
		return nil
	}
	if err := change(gone, conn.SetDeleteElements); err != nil {
		return err
	}
	if err := change(come, conn.SetAddElements); err != nil {
		return err
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("write elements: %w", err)
	}
	return nil
}

package porthole

import "golang.org/x/sys/unix"

// podElement is what a pod has in a set, or in a map.
type podElement struct {
	set string
	element
}

// elements of a pod.
func (p Pod) elements() []podElement {
	v := familyOf(p.Own).version
	own, face := p.Own.AsSlice(), p.Face.AsSlice()
	return []podElement{
		{setPods + v, element{key: own}},
		{mapOwn + v, element{key: face, value: own}},
		{mapFace + v, element{key: own, value: face}},
	}
}

// pods adds pods to a table, or takes them out.
func (t *transaction) pods(kind uint16, pods []Pod) {
	bySet, names := map[string][]element{}, []string(nil)
	for _, pod := range pods {
		for _, e := range pod.elements() {
			if _, has := bySet[e.set]; !has {
				names = append(names, e.set)
			}
			bySet[e.set] = append(bySet[e.set], e.element)
		}
	}
	for _, name := range names {
		t.elements(kind, name, bySet[name])
	}
}

// changePods is a transaction that removes and adds pods.
func changePods(gone, come []Pod) *transaction {
	t := &transaction{}
	t.pods(unix.NFT_MSG_DELSETELEM, gone)
	t.pods(unix.NFT_MSG_NEWSETELEM, come)
	return t
}

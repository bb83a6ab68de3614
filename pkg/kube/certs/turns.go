package certs

import (
	certificates "k8s.io/api/certificates/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// waiting is a request that waits for its answer.
type waiting struct {
	// node is where it comes from; empty if the signer serves no such requester.
	node, name string
}

func waitingOf(request *certificates.CertificateSigningRequest) waiting {
	node, err := NodeOf(&request.Spec)
	if err != nil {
		node = ""
	}
	return waiting{node, request.Name}
}

// turns is a queue (workqueue.Queue) in which nodes take turns: however many requests one node makes, a request of another node
// waits for one answer to each node only. Its caller holds a lock.
type turns struct {
	// lines are the requests of each node, in the order in which they came. order are the nodes that have some, and the first one is next.
	lines map[string][]waiting
	order []string
	count int
}

func (t *turns) Touch(waiting) {}

func (t *turns) Push(w waiting) {
	line := t.lines[w.node]
	if len(line) == 0 {
		t.order = append(t.order, w.node)
	}
	t.lines[w.node] = append(line, w)
	t.count++
}

func (t *turns) Len() int { return t.count }

func (t *turns) Pop() waiting {
	node := t.order[0]
	line := t.lines[node]
	t.order = t.order[1:]
	t.count--
	if len(line) == 1 {
		delete(t.lines, node)
	} else {
		t.lines[node] = line[1:]
		t.order = append(t.order, node)
	}
	return line[0]
}

// slim is what an informer keeps of a request (cache.TransformFunc): who asks and what became of it. A node may make very many,
// and each is read anew when its turn comes.
func slim(object any) (any, error) {
	request, ok := object.(*certificates.CertificateSigningRequest)
	if !ok {
		return object, nil
	}
	out := &certificates.CertificateSigningRequest{ObjectMeta: meta.ObjectMeta{
		Name: request.Name, UID: request.UID, ResourceVersion: request.ResourceVersion,
	}}
	for _, c := range request.Status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, certificates.CertificateSigningRequestCondition{Type: c.Type})
	}
	if len(request.Status.Certificate) > 0 {
		out.Status.Certificate = []byte{'-'}
	}
	if !answered(request) {
		out.Spec = certificates.CertificateSigningRequestSpec{
			SignerName: request.Spec.SignerName, Username: request.Spec.Username, Groups: request.Spec.Groups, Extra: request.Spec.Extra,
		}
	}
	return out, nil
}

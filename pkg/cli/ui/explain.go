package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// maxWord is how long what somebody writes into a field may be: a DNS name.
const maxWord = 253

// questionForm is what the form of explain has.
type questionForm struct{ From, To, Port, Protocol, Network string }

// Protocols are those that can be chosen.
func (questionForm) Protocols() []model.Protocol {
	return []model.Protocol{model.TCP, model.UDP, model.SCTP, trace.ICMP}
}

// asked reads the form.
func asked(q url.Values) questionForm {
	word := func(key string) string { return strings.TrimSpace(q.Get(key)) }
	out := questionForm{word("from"), word("to"), word("port"), strings.ToLower(word("protocol")), word("network")}
	if out.Protocol == "" {
		out.Protocol = string(model.TCP)
	}
	return out
}

// spec is the question as it is posted.
func (q questionForm) spec() (api.ExplanationSpec, error) {
	for _, w := range []string{q.From, q.To, q.Port, q.Protocol, q.Network} {
		if len(w) > maxWord {
			return api.ExplanationSpec{}, questionError{fmt.Errorf("a field has more than %d characters", maxWord)}
		}
	}
	out := api.ExplanationSpec{From: q.From, To: q.To, Network: q.Network, Protocol: q.Protocol}
	if q.Port != "" {
		port, err := strconv.ParseUint(q.Port, 10, 16)
		if err != nil {
			return out, questionError{fmt.Errorf("port %q: write a number from 1 to 65535", q.Port)}
		}
		out.Port = uint16(port)
	}
	// Whoever chooses icmp after a port does not mean the port.
	if out.Protocol == string(trace.ICMP) {
		out.Port = 0
	}
	if _, err := question.ParseQuestion(out); err != nil {
		return out, questionError{err}
	}
	return out, nil
}

// explainURL is the address of a question.
func explainURL(from, to, protocol string) string {
	q := url.Values{}
	for key, value := range map[string]string{"from": from, "to": to, "protocol": protocol} {
		if value != "" {
			q.Set(key, value)
		}
	}
	return "/explain?" + q.Encode()
}

// url is the address of a question.
func (q questionForm) url() string {
	out := url.Values{"from": {q.From}, "to": {q.To}, "protocol": {q.Protocol}}
	for key, value := range map[string]string{"port": q.Port, "network": q.Network} {
		if value != "" {
			out.Set(key, value)
		}
	}
	return "/explain?" + out.Encode()
}

func (s *Server) explain(ctx context.Context, r *http.Request) (view, error) {
	v := view{Template: "explain", Title: "Explain", Asked: asked(r.URL.Query())}
	if v.Asked.From == "" || v.Asked.To == "" {
		v.Template, v.Said = "ends", "Name both ends"
		return v, nil
	}
	v.Title = "From " + v.Asked.From + " to " + v.Asked.To
	spec, err := v.Asked.spec()
	if err != nil {
		return v, err
	}
	e, err := s.config.Source.Explain(ctx, spec)
	if err != nil {
		return v, fmt.Errorf("explain: %w", err)
	}
	v.Data, v.Said = e, e.Verdict()
	return v, nil
}

// maxEnds is how many pods of a Network can be chosen of.
const maxEnds = 200

// peeringData is what two Networks are to one another, and the pods to ask about.
type peeringData struct {
	From, To string
	// Peers are what From says of To, and Back what To says of From.
	Peers, Back []api.Peer
	Senders     []string
	Receivers   []string
	Missing     []string
}

// peeringURL is the address of what two Networks are to one another.
func peeringURL(from, to string) string {
	return "/peering?" + url.Values{"from": {from}, "to": {to}}.Encode()
}

// peering shows an edge of the map: what both Networks say of it, and who may be asked about.
func (s *Server) peering(ctx context.Context, r *http.Request) (view, error) {
	q := r.URL.Query()
	data := peeringData{From: q.Get("from"), To: q.Get("to")}
	v := view{Template: "peering", Title: fmt.Sprintf("From Network %s to Network %s", data.From, data.To), Open: []string{data.From, data.To}}
	if data.From == "" || data.To == "" || len(data.From)+len(data.To) > 2*maxWord {
		return v, questionError{errors.New("name two Networks")}
	}
	sides := [2]struct {
		name, other string
		peers       *[]api.Peer
		pods        *[]string
	}{{data.From, data.To, &data.Peers, &data.Senders}, {data.To, data.From, &data.Back, &data.Receivers}}
	for _, side := range sides {
		n, note, err := s.config.Source.Network(ctx, side.name)
		if err != nil {
			// Of a peer that is somebody else's, the own Network tells.
			data.Missing = append(data.Missing, fmt.Sprintf("network: %v", err))
			continue
		}
		v.Note = note
		for _, p := range n.Status.Peers {
			if p.Network == side.other {
				*side.peers = append(*side.peers, p)
			}
		}
		pods, _, err := podsIn(ctx, s.config.Source, n)
		if err != nil {
			data.Missing = append(data.Missing, fmt.Sprintf("pods: %v", err))
			continue
		}
		for _, p := range pods[:min(len(pods), maxEnds)] {
			*side.pods = append(*side.pods, p.Namespace+"/"+p.Name)
		}
	}
	if len(data.Missing) == len(sides) {
		return v, errors.New(strings.Join(data.Missing, "; "))
	}
	// What is asked first needs no port.
	v.Asked = questionForm{Protocol: string(trace.ICMP)}
	if len(data.Senders) > 0 {
		v.Asked.From = data.Senders[0]
	}
	if len(data.Receivers) > 0 {
		v.Asked.To = data.Receivers[0]
	}
	v.Data, v.Said = data, v.Title
	return v, nil
}

// peerURL is the address of what a Network and a peer of it are to one another: from who reaches to who is reached.
func peerURL(network string, p api.Peer) string {
	if p.Direction == "Serves" {
		return peeringURL(p.Network, network)
	}
	return peeringURL(network, p.Network)
}

package compile

import (
	"maps"

	"github.com/atoll-net/atoll/pkg/nb"
)

// What ovn-controller is asked on each node is bounded, or a pod would have it work all the time: by questions for neighbours, or by
// packets whose time to live ends. (ovn-nb(5), Copp. Each Meter is one per node, whoever names it.)
//
// What a Network's pods cannot do without has bounds of the Network's own: answers to their neighbour discovery, and refusals in the
// name of Services without endpoints. What they can do without, all Networks share. Own bounds for all of it would cost a Network 40 logical flows, and these cost 11.
const (
	controlMeter = "atoll_control"
	// Rates are in packets per second.
	controlRate   = 300
	neighbourRate = 500
	refusalRate   = 200
)

// Kinds of packets that ovn-controller is asked about. (ovn-nb(5), Copp meters.)
const (
	copNeighbourAnswers = "nd-na"
	copRefusals         = "reject"
)

// dispensable are the kinds of packets that a Network can do without for a while: learning neighbours that no row names, and telling
// senders why a packet has not arrived.
func dispensable() []string {
	return []string{"arp", "arp-resolve", "nd-ns", "nd-ns-resolve", "icmp4-error", "icmp6-error", "tcp-reset"}
}

// Control gives the bound that all Networks share.
func Control() nb.Facts {
	return meter(controlMeter, controlRate, map[string]string{nb.KeyOwner: string(nb.ControlOwner)})
}

// meter gives a meter that drops what is more than rate packets a second.
func meter(name string, rate int, ids map[string]string) nb.Facts {
	fair := false
	band := &nb.MeterBand{UUID: nb.UUID(nb.TableMeterBand, name), Action: "drop", Rate: rate, ExternalIDs: maps.Clone(ids)}
	return nb.Facts{Rows: []nb.Row{
		&nb.Meter{UUID: nb.UUID(nb.TableMeter, name), Name: name, Unit: "pktps", Fair: &fair, Bands: []string{band.UUID}, ExternalIDs: ids},
		band,
	}}
}

// coppUUID is the UUID of the row that a Network's routers and switches refer to.
func coppUUID(l Layout) *string {
	id := nb.UUID(nb.TableCopp, l.UID)
	return &id
}

// control gives the bounds of a Network.
func control(l Layout) nb.Facts {
	name := l.Name + "/" + l.UID
	meters := map[string]string{copNeighbourAnswers: name + ":neighbours", copRefusals: name + ":refusals"}
	for _, kind := range dispensable() {
		meters[kind] = controlMeter
	}
	facts := nb.Facts{Rows: []nb.Row{&nb.Copp{UUID: *coppUUID(l), Name: name, Meters: meters, ExternalIDs: idsOf(l)}}}
	facts.Add(meter(meters[copNeighbourAnswers], neighbourRate, idsOf(l)))
	facts.Add(meter(meters[copRefusals], refusalRate, idsOf(l)))
	return facts
}

package matrix

import (
	"slices"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// evidence is all that is known of one path: what the source was told, and which pods saw its token.
type evidence struct {
	result wire.Result
	// seenBy indexes pods.
	seenBy []int
}

// judge makes an outcome of the evidence of the path from -> to.
func judge(pods []Pod, from, to int, protocol wire.Protocol, e evidence) Path {
	path := Path{From: from, To: to, Protocol: protocol, RTT: e.result.RTT}
	heard := slices.Clone(e.seenBy)
	unknown := false
	if e.result.Answered && protocol != wire.ICMP {
		answered := slices.IndexFunc(pods, func(p Pod) bool { return p.UID == e.result.Answerer.UID })
		switch {
		case answered < 0:
			unknown = true
			path.Witnesses = append(path.Witnesses, e.result.Answerer.String())
		case !slices.Contains(heard, answered):
			heard = append(heard, answered)
		}
	}
	slices.Sort(heard)
	for _, i := range heard {
		path.Witnesses = append(path.Witnesses, pods[i].String())
	}
	path.Outcome = outcome(pods, from, to, e.result.Answered, heard, unknown)
	return path
}

// outcome decides by who heard the probe; unknown means that somebody who is none of pods answered.
func outcome(pods []Pod, from, to int, answered bool, heard []int, unknown bool) Outcome {
	network := pods[from].Network
	if slices.ContainsFunc(heard, func(i int) bool { return pods[i].Network != network }) {
		return Leaked
	}
	if unknown {
		return Stray
	}
	if len(heard) == 0 {
		if answered {
			// An echo reply that no pod accounts for.
			return Stray
		}
		return Silent
	}
	// All who heard it are of the source's Network: the one that holds the address is the one meant.
	if len(heard) > 1 || pods[heard[0]].Address != pods[to].Address {
		return Stray
	}
	switch {
	case !answered:
		return Lost
	case heard[0] == to:
		return Reached
	default:
		return Own
	}
}

package nb

import "strconv"

// SampleSet names the samples that OVN takes for us, to the Open vSwitch of each node: the set_id of a Sample_Collector, and the
// id of a Flow_Sample_Collector_Set. A node that has none takes no samples. (ovn-nb(5), Sample_Collector.) It is below 256:
// ovn-northd 25.03 takes no more of it than its last 8 bits.
const SampleSet = 97

// Numbers of what samples, in the northbound database.
const (
	// SampleCollectorID is the id of our Sample_Collector.
	SampleCollectorID = SampleSet
	// SampleAppNew is the id of the Sampling_App acl-new: what ACLs decide about packets that begin connections, or are dropped.
	SampleAppNew = 1
)

// SampleOwner is the KeyOwner of what samples; no object wants it, but settings.
const SampleOwner = "flows"

// SamplePoint is the observation point of an ACL's samples: the first 32 bits of its UUID, which ovn-northd notes in the logical
// flows that it makes of it (stage-hint). False for one that has none: a point is not 0.
func SamplePoint(acl string) (uint32, bool) {
	const digits = 8
	if len(acl) < digits {
		return 0, false
	}
	point, err := strconv.ParseUint(acl[:digits], 16, 32)
	return uint32(point), err == nil && point != 0
}

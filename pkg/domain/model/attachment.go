package model

import "strings"

// AttachmentKey names an interface of a pod.
type AttachmentKey struct {
	Pod PodKey
	// Interface is its name inside the pod.
	Interface string
}

// First is the key of the pod's first interface.
func (k PodKey) First() AttachmentKey { return AttachmentKey{k, DefaultInterface} }

// PortName is the name of the interface's logical switch port, and the iface-id by which the node's interface is bound to it:
// namespace/name for the first interface, namespace/name/interface for others. Names of pods and namespaces hold no slash, so
// that two ports never share a name.
func (k AttachmentKey) PortName() string {
	if k.Interface == "" || k.Interface == DefaultInterface {
		return k.Pod.String()
	}
	return k.Pod.String() + "/" + k.Interface
}

// String is the key as users write it.
func (k AttachmentKey) String() string { return k.PortName() }

// ParsePortName reads the name of a logical switch port; false for one that is no pod's.
func ParsePortName(name string) (AttachmentKey, bool) {
	words := strings.Split(name, "/")
	switch len(words) {
	case 2:
		words = append(words, DefaultInterface)
	case 3:
	default:
		return AttachmentKey{}, false
	}
	return AttachmentKey{PodKey{words[0], words[1]}, words[2]}, true
}

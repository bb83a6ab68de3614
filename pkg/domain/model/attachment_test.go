package model

import "testing"

func TestPortNames(t *testing.T) {
	web := PodKey{Namespace: "red", Name: "web"}
	for name, key := range map[string]AttachmentKey{"red/web": web.First(), "red/web/net1": {web, "net1"}} {
		if got := key.PortName(); got != name {
			t.Errorf("%+v is %s, want %s", key, got, name)
		}
		if got, ok := ParsePortName(name); !ok || got != key {
			t.Errorf("%s is %+v (%t), want %+v", name, got, ok, key)
		}
	}
	for _, name := range []string{"", "red", "red:porthole", "red/web/net1/more"} {
		if got, ok := ParsePortName(name); ok {
			t.Errorf("%s is %+v", name, got)
		}
	}
}

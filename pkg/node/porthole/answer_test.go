package porthole

import (
	"net/netip"
	"slices"
	"testing"
)

func TestARP(t *testing.T) {
	t.Parallel()
	own, router := netip.MustParseAddr("169.254.100.2"), netip.MustParseAddr("169.254.100.1")
	asked, err := arpRequest("0e:a7:01:00:00:02", own, router)
	if err != nil {
		t.Fatal(err)
	}
	// RFC 826, as tcpdump shows it: "who-has 169.254.100.1 tell 169.254.100.2".
	want := []byte{
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0e, 0xa7, 0x01, 0, 0, 0x02, 0x08, 0x06,
		0, 1, 0x08, 0, 6, 4, 0, 1, 0x0e, 0xa7, 0x01, 0, 0, 0x02, 169, 254, 100, 2, 0, 0, 0, 0, 0, 0, 169, 254, 100, 1,
	}
	if !slices.Equal(asked, want) {
		t.Errorf("request %x, want %x", asked, want)
	}
	answer := slices.Clone(want)
	answer[21] = arpAnswer
	copy(answer[28:], router.AsSlice())
	for _, test := range []struct {
		what  string
		frame []byte
		want  bool
	}{
		{"the router's answer", answer, true},
		{"with padding", append(slices.Clone(answer), make([]byte, 18)...), true},
		{"the question", want, false},
		{"about another", slices.Concat(answer[:31], []byte{9}, answer[32:]), false},
		{"cut off", answer[:40], false},
		{"empty", nil, false},
	} {
		if got := isReply(test.frame, router); got != test.want {
			t.Errorf("%s: %v", test.what, got)
		}
	}
}

package nri

import "testing"

func TestSharedMount(t *testing.T) {
	const mounts = `21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
22 21 0:20 / /run rw,nosuid - tmpfs tmpfs rw
23 21 0:21 / /mnt/shared:9 rw master:4 shared:7 - tmpfs shared:3 rw
24 21 0:22 / /slave rw master:4 - tmpfs tmpfs rw
25 21 0:23 / /short
`
	for id, want := range map[uint64]bool{21: true, 22: false, 23: true, 24: false, 25: false, 2: false} {
		if got := sharedMount(mounts, id); got != want {
			t.Errorf("sharedMount(%d) = %v, want %v", id, got, want)
		}
	}
}

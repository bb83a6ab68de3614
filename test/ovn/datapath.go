package ovn

import (
	"fmt"
	"os"
)

// DatapathVariable names the environment variable that says on which datapath tests run their bridges.
const DatapathVariable = "ATOLL_DATAPATH"

// Values of DatapathVariable, which are those of a bridge's datapath_type (ovs-vswitchd.conf.db(5)).
const (
	// UserspaceDatapath needs nothing of the kernel. It is what tests use when nothing is said.
	UserspaceDatapath = "netdev"
	// SystemDatapath is the kernel's, which users run. Not every kernel has it.
	SystemDatapath = "system"
)

// Datapath is the datapath_type of bridges that tests make.
func Datapath() (string, error) {
	switch wanted := os.Getenv(DatapathVariable); wanted {
	case "", UserspaceDatapath:
		return UserspaceDatapath, nil
	case SystemDatapath:
		return SystemDatapath, nil
	default:
		return "", fmt.Errorf("read %s: there is no datapath %q, only %s and %s", DatapathVariable, wanted, UserspaceDatapath, SystemDatapath)
	}
}

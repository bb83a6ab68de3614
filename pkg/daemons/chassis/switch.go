package chassis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"

	"github.com/atoll-net/atoll/pkg/process/rlimit"
)

const switchDaemon = "ovs-vswitchd"

// Datapath is where packets are forwarded: a bridge's datapath_type (ovs-vswitchd.conf.db(5)).
type Datapath string

// The datapaths.
const (
	// Kernel is the kernel's module openvswitch. It forwards on while ovs-vswitchd is away.
	Kernel Datapath = "system"
	// Userspace is ovs-vswitchd itself, and ends with it. It is for machines whose kernel lacks the module, such as those that test Atoll.
	Userspace Datapath = "netdev"
)

// UnmarshalText reads a flag's value: kernel or userspace.
func (d *Datapath) UnmarshalText(text []byte) error {
	named := map[string]Datapath{"kernel": Kernel, "userspace": Userspace}
	wanted, known := named[string(text)]
	if !known {
		return fmt.Errorf("there is no datapath %q, only kernel and userspace", text)
	}
	*d = wanted
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Datapath) MarshalText() ([]byte, error) {
	if d == Userspace {
		return []byte("userspace"), nil
	}
	return []byte("kernel"), nil
}

// kernelFamily is the generic netlink family of the kernel's datapath. (Linux, include/uapi/linux/openvswitch.h.)
const kernelFamily = "ovs_datapath"

// ErrNoModule says that the kernel has no datapath.
var ErrNoModule = errors.New("the kernel has no module openvswitch: load it (modprobe openvswitch), or run the node with " +
	"--datapath=userspace, which is slower, needs --underlay, and cuts pods off whenever ovs-vswitchd restarts")

// Switch is the node's ovs-vswitchd.
type Switch struct {
	Directories Directories
	Datapath    Datapath
	// Underlay is the interface that tunnels leave by. Only the userspace datapath wants to know: it sends nothing by the kernel's own routes.
	Underlay string
}

// Run forwards packets until ctx ends.
func (s Switch) Run(ctx context.Context, log *slog.Logger) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := s.Directories.make(); err != nil {
		return err
	}
	// ovs-vswitchd takes some for each port and thread.
	rlimit.RaiseFiles()
	saved := flows{s.Directories}
	arguments := []string{"unix:" + s.Directories.database()}
	if s.Datapath == Userspace {
		arguments = append(arguments, "--disable-system")
	}
	return daemon{
		name: switchDaemon, dirs: s.Directories, log: log, arguments: arguments,
		prepare: func(ctx context.Context) error {
			if err := waitForDatabase(ctx, s.Directories, log); err != nil {
				return err
			}
			return saved.hold(ctx, log)
		},
		started: func(ctx context.Context) error {
			// Whatever happens: a bridge that holds its flows forwards nothing new.
			err := saved.restore(ctx, log)
			if s.Datapath == Userspace && s.Underlay != "" {
				err = errors.Join(err, underlay{s.Directories, s.Underlay}.ensure(ctx))
			}
			return err
		},
		leave: func(ctx context.Context) { saved.save(ctx, log) },
		// Without --cleanup: the kernel's datapath, with its ports and flows, stays.
		exit: []string{"exit"},
	}.keep(ctx)
}

// check refuses what would leave a node without a working network, before anything is changed.
func (s Switch) check() error {
	if s.Datapath == Userspace {
		return nil
	}
	if s.Underlay != "" {
		return fmt.Errorf("read --underlay=%s: it is for --datapath=userspace; the kernel's datapath sends tunnels by the kernel's own routes",
			s.Underlay)
	}
	// The kernel loads the module when it is asked for the family, without any right of ours (MODULE_ALIAS_GENL_FAMILY).
	if _, err := netlink.GenlFamilyGet(kernelFamily); errors.Is(err, syscall.ENOENT) {
		return ErrNoModule
	} else if err != nil {
		return fmt.Errorf("look for the kernel's datapath: %w", err)
	}
	return nil
}

// waitForDatabase waits until the node's database has its row of settings, and says for what it waits.
func waitForDatabase(ctx context.Context, dirs Directories, log *slog.Logger) error {
	said := false
	err := await(ctx, func() error {
		err := serves(ctx, dirs)
		if err != nil && !said {
			said = true
			log.Info("waiting for the node's Open vSwitch database", "socket", dirs.database(), "error", err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for the node's Open vSwitch database: %w", err)
	}
	_, err = dirs.vsctl(ctx, "init")
	return err
}

// serves asks the database's server for its databases (RFC 7047, 4.1.1). It is an error if the switch's is not among them.
func serves(ctx context.Context, dirs Directories) error {
	list, err := call[[]string](ctx, dirs.database(), "list_dbs", []string{})
	if err != nil {
		return err
	}
	if slices.Contains(list, databaseName) {
		return nil
	}
	return fmt.Errorf("%s serves %v and no %s", dirs.database(), list, databaseName)
}

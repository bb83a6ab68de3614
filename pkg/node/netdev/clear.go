package netdev

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// Clear removes every interface of ours from the node, and what it was guarded and bounded by. That there is none is no error.
func Clear() error {
	owned, err := List()
	if err != nil {
		return err
	}
	failed := []error{}
	for _, o := range owned {
		failed = append(failed, Delete(o.Owner))
	}
	// The guard goes last: what is still there when something failed stays shut.
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return errors.Join(
		DeleteTable(nftables.TableFamilyNetdev, boundsTable),
		DeleteTable(nftables.TableFamilyINet, GuardTable),
	)
}

// DeleteTable deletes a table of nftables; that there is none, or no tables of the family, is no error.
func DeleteTable(family nftables.TableFamily, name string) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	conn.DelTable(&nftables.Table{Name: name, Family: family})
	if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EAFNOSUPPORT) &&
		!errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("delete nftables table %s: %w", name, err)
	}
	return nil
}

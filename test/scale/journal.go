package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// journal is the northbound database's file: the server appends each transaction that it commits (ovsdb(5),
// "standalone"). So it tells what was really written, whoever says what.
type journal struct{ path string }

// mark is a place in the journal.
type mark struct {
	file   os.FileInfo
	offset int64
}

// record is one transaction: for each table the rows that it changed; a null is a row that was deleted.
type record map[string]map[string]json.RawMessage

// errCompacted: the server has written the file anew, which it does now and then.
var errCompacted = errors.New("the database was compacted meanwhile")

func (j journal) mark() (mark, error) {
	info, err := os.Stat(j.path)
	if err != nil {
		return mark{}, fmt.Errorf("read database file: %w", err)
	}
	return mark{info, info.Size()}, nil
}

// since lists the transactions after a mark.
func (j journal) since(m mark) ([]record, error) {
	f, err := os.Open(j.path)
	if err != nil {
		return nil, fmt.Errorf("read database file: %w", err)
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !os.SameFile(info, m.file) {
		return nil, errors.Join(errCompacted, err)
	}
	if _, err := f.Seek(m.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read database file: %w", err)
	}
	return readRecords(bufio.NewReader(f))
}

// readRecords reads "OVSDB JSON <bytes> <checksum>", a line break, so many bytes of JSON, and so on.
func readRecords(r *bufio.Reader) ([]record, error) {
	var out []record
	for {
		head, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) && head == "" {
			return out, nil
		}
		var length int
		var sum string
		if _, scanErr := fmt.Sscanf(head, "OVSDB JSON %d %s", &length, &sum); err != nil || scanErr != nil {
			return nil, fmt.Errorf("read database file: %q: %w", head, errors.Join(err, scanErr))
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, fmt.Errorf("read database file: %w", err)
		}
		var all map[string]json.RawMessage
		if err := json.Unmarshal(body, &all); err != nil {
			return nil, fmt.Errorf("read database file: %w", err)
		}
		one := record{}
		for table, content := range all {
			if strings.HasPrefix(table, "_") {
				continue // when it was, and the client's comment
			}
			var rows map[string]json.RawMessage
			if err := json.Unmarshal(content, &rows); err != nil {
				return nil, fmt.Errorf("read database file: table %s: %w", table, err)
			}
			one[table] = rows
		}
		out = append(out, one)
	}
}

// about reports whether a transaction changed more than the row that everybody shares (which controller leads, and how
// far northd has come, is written there) and northd's own columns.
func (r record) about() bool {
	for table, rows := range r {
		if table == nb.TableGlobal.String() {
			continue
		}
		for _, columns := range rows {
			if !northds(columns) {
				return true
			}
		}
	}
	return false
}

// northds reports whether a change of a row is northd's: only it writes whether a port is up, and on which chassis.
func northds(change json.RawMessage) bool {
	var columns map[string]json.RawMessage
	if err := json.Unmarshal(change, &columns); err != nil || columns == nil {
		return false // a row that was deleted
	}
	for column := range columns {
		if column != "up" && column != "status" && column != "dynamic_addresses" {
			return false
		}
	}
	return true
}

// inserted lists the ports that a transaction made.
func (r record) inserted() []string {
	var uuids []string
	for uuid, columns := range r[nb.TableLogicalSwitchPort.String()] {
		var port struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(columns, &port) == nil && port.Name != "" {
			uuids = append(uuids, uuid)
		}
	}
	return uuids
}

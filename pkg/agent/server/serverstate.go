package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Administrative states of a server, as HAProxy counts them.
const (
	forcedMaintenance     = 0x01
	configuredMaintenance = 0x04
	forcedDrain           = 0x08
)

// stateColumns are those that are read, in the order of the constants.
var stateColumns = [...]string{"be_name", "srv_name", "srv_addr", "srv_port", "srv_fqdn", "srv_agent_state", "srv_iweight", "srv_uweight", "srv_admin_state"}

const (
	columnBackend = iota
	columnServer
	columnAddress
	columnPort
	columnName
	columnAgent
	columnInitialWeight
	columnWeight
	columnAdmin
	columnCount
)

// serverTable reads the answer line by line without keeping any of it.
type serverTable struct {
	at     [columnCount]int // where a column is; -1: not in this version
	width  int
	fields [][]byte
	next   int // where the next row's server line should be
	spare  []byte
}

// head takes a line that names the columns, if it is one.
func (t *serverTable) head(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("# "))
	if !ok {
		return false
	}
	names := strings.Fields(string(rest))
	t.width = len(names)
	for i, name := range stateColumns {
		t.at[i] = slices.Index(names, name)
	}
	return true
}

// row takes a line of values, if it is a whole one.
func (t *serverTable) row(line []byte) bool {
	t.fields = slices.AppendSeq(t.fields[:0], bytes.FieldsSeq(line))
	return t.width > 0 && len(t.fields) >= t.width
}

func (t *serverTable) value(column int) []byte {
	if t.at[column] < 0 {
		return nil
	}
	return t.fields[t.at[column]]
}

// is compares a value without making a string of it: there are thousands.
func (t *serverTable) is(column int, want string) bool { return string(t.value(column)) == want }

// checkServers compares what "show servers state" tells with the configuration,
// as it comes in. What health checks, resolvers and agents change is theirs to
// change. Of a backend that is named, at least one server must be shown.
func checkServers(answer io.Reader, want *backends, named string) error {
	first := want.first(named)
	table := serverTable{next: max(first, 0)}
	shown := make(map[string]bool, len(want.open)) // backends with a line
	seen := make([]bool, len(want.list))
	scanner := newLines(answer)
	ended := false
	for scanner.Scan() {
		line := scanner.Bytes()
		ended = len(line) == 0
		if table.head(line) || !table.row(line) {
			continue
		}
		if err := table.hold(want, shown, seen); err != nil {
			return err
		}
	}
	switch {
	case scanner.Err() != nil:
		return scanner.Err()
	case !ended:
		// Every whole answer ends with an empty line, or is nothing else. What is
		// missing from one that is cut would look like servers nobody asked about.
		return io.ErrUnexpectedEOF
	case first >= 0 && !shown[named]:
		return &driftError{what: "backend " + named + ": has no servers"}
	}
	for i, server := range want.list {
		if !seen[i] && shown[server.backend] {
			return &driftError{what: fmt.Sprintf("server %s/%s is not there", server.backend, server.server)}
		}
	}
	return nil
}

// hold holds one row against the configuration, and notes what it shows.
func (t *serverTable) hold(want *backends, shown map[string]bool, seen []bool) error {
	backend, name := t.value(columnBackend), t.value(columnServer)
	open, declared := want.open[string(backend)]
	if !declared {
		return nil // HAProxy's own, or from a section this does not read
	}
	if !shown[string(backend)] { // to set it makes a string of it, each time
		shown[string(backend)] = true
	}
	i, ok := want.find(backend, name, t.next)
	var server configured
	switch {
	case ok:
		seen[i], server, t.next = true, want.list[i], i+1
	case !open:
		return &driftError{what: fmt.Sprintf("server %s/%s: is not in the configuration", backend, name)}
	}
	if err := t.check(server); err != nil {
		return &driftError{what: fmt.Sprintf("server %s/%s: %v", backend, name, err)}
	}
	return nil
}

// check compares the row with what its server line says.
func (t *serverTable) check(server configured) error {
	if server.known && t.is(columnName, "-") && !t.hasAddress(server.address) {
		return errors.New("has another address")
	}
	if !t.is(columnAgent, "0") {
		return nil // an agent sets weight and state as it likes
	}
	weight := server.weight
	if !server.whole {
		weight = string(t.value(columnInitialWeight))
	}
	if !t.is(columnWeight, weight) {
		return errors.New("has another weight")
	}
	admin, err := strconv.Atoi(string(t.value(columnAdmin)))
	if err != nil {
		return nil // not shown by this version
	}
	disabled := admin&configuredMaintenance != 0
	if server.whole {
		disabled = server.disabled
	}
	if admin&forcedDrain != 0 || (admin&forcedMaintenance != 0) != disabled {
		return errors.New("has another state")
	}
	return nil
}

// hasAddress reads the address only if it is not written as this program would.
func (t *serverTable) hasAddress(want netip.AddrPort) bool {
	port, err := strconv.ParseUint(string(t.value(columnPort)), 10, 16)
	if err != nil || uint16(port) != want.Port() {
		return false
	}
	t.spare = want.Addr().Unmap().AppendTo(t.spare[:0])
	if bytes.Equal(t.spare, t.value(columnAddress)) {
		return true
	}
	address, err := netip.ParseAddr(string(t.value(columnAddress)))
	return err == nil && address.Unmap() == want.Addr().Unmap()
}

package server

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// configured is a server line whose address is written out.
type configured struct {
	address netip.AddrPort
	known   bool // false: a name, a variable, a socket; only that it exists is known
}

// backends are the servers of a configuration by backend and name.
type backends map[string]*backend

type backend struct {
	servers map[string]configured
	// open: it may have servers that no line names.
	open bool
}

// configuredServers reads the server lines of a configuration. It reports false
// when conditions decide what is in force, which only HAProxy can tell.
func configuredServers(config string) (backends, bool) {
	found := make(backends)
	var current *backend
	for line := range strings.Lines(config) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		switch word := fields[0]; {
		case strings.HasPrefix(word, ".") && word != ".diag" && word != ".notice" && word != ".warning" && word != ".alert":
			return nil, false
		case (word == "backend" || word == "listen") && len(fields) > 1:
			current = &backend{servers: make(map[string]configured)}
			found[fields[1]] = current
		case isSection(word):
			current = nil
		case current == nil:
		case word == "server" && len(fields) > 2:
			address, err := netip.ParseAddrPort(fields[2])
			current.servers[fields[1]] = configured{address: address, known: err == nil}
		case word == "server-template":
			current.open = true
		}
	}
	return found, true
}

func isSection(word string) bool {
	switch word {
	case "global", "defaults", "frontend", "peers", "resolvers", "mailers", "userlist", "ring", "log-forward",
		"http-errors", "cache", "program", "fcgi-app", "crt-store", "traces", "log-profile":
		return true
	}
	return false
}

// Administrative states of a server, as HAProxy counts them.
const (
	forcedMaintenance     = 0x01
	configuredMaintenance = 0x04
	forcedDrain           = 0x08
)

// checkServers compares what "show servers state" tells with the configuration.
// What health checks, resolvers and agents change is theirs to change.
func checkServers(answer string, want backends) error {
	columns := make(map[string]int)
	seen := make(map[string]map[string]bool)
	for line := range strings.SplitSeq(answer, "\n") {
		fields := strings.Fields(line)
		if rest, ok := strings.CutPrefix(line, "# "); ok {
			for i, name := range strings.Fields(rest) {
				columns[name] = i
			}
			continue
		}
		if len(fields) < len(columns) || len(columns) == 0 {
			continue
		}
		at := func(name string) string {
			i, ok := columns[name]
			if !ok {
				return ""
			}
			return fields[i]
		}
		name, server := at("be_name"), at("srv_name")
		declared := want[name]
		if declared == nil {
			continue // HAProxy's own, or from a section this does not read
		}
		if seen[name] == nil {
			seen[name] = make(map[string]bool)
		}
		seen[name][server] = true
		if err := checkServer(at, declared); err != nil {
			return &driftError{what: fmt.Sprintf("server %s/%s: %v", name, server, err)}
		}
	}
	for name, servers := range seen {
		for server := range want[name].servers {
			if !servers[server] {
				return &driftError{what: fmt.Sprintf("server %s/%s is not there", name, server)}
			}
		}
	}
	return nil
}

func checkServer(at func(string) string, declared *backend) error {
	server, ok := declared.servers[at("srv_name")]
	if !ok && !declared.open {
		return fmt.Errorf("is not in the configuration")
	}
	if server.known && at("srv_fqdn") == "-" {
		address, err := netip.ParseAddr(at("srv_addr"))
		if err != nil || address.Unmap() != server.address.Addr().Unmap() || at("srv_port") != strconv.Itoa(int(server.address.Port())) {
			return fmt.Errorf("has another address")
		}
	}
	if at("srv_agent_state") != "0" {
		return nil // an agent sets weight and state as it likes
	}
	if at("srv_uweight") != at("srv_iweight") {
		return fmt.Errorf("has another weight")
	}
	admin, err := strconv.Atoi(at("srv_admin_state"))
	if err != nil {
		return nil // not shown by this version
	}
	if admin&forcedDrain != 0 || (admin&forcedMaintenance != 0) != (admin&configuredMaintenance != 0) {
		return fmt.Errorf("has another state")
	}
	return nil
}

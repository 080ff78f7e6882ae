package server

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/plan"
)

// configured is a server line, as far as it can be read without HAProxy.
type configured struct {
	address netip.AddrPort
	known   bool // false: a name, a variable, a socket; only that it exists is known
	// weight and disabled are what the line asks for, if whole: otherwise the
	// worker is only held against what it was loaded with.
	whole    bool
	weight   string
	disabled bool
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
	harmless := true // no default-server line changes weights and states
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
		case current == nil && word == "default-server" && !isHarmless(fields[1:]):
			harmless = false
		case current == nil:
		case word == "server" && len(fields) > 2:
			current.servers[fields[1]] = readServer(fields)
		case word == "default-server" && !isHarmless(fields[1:]):
			harmless = false
		case word == "server-template":
			current.open = true
		}
	}
	if !harmless {
		found.forget()
	}
	return found, true
}

// readServer reads one server line.
func readServer(fields []string) configured {
	address, err := netip.ParseAddrPort(fields[2])
	server := configured{address: address, known: err == nil, weight: "1", whole: true}
	for i := 3; i < len(fields) && !strings.HasPrefix(fields[i], "#"); i++ {
		switch word := fields[i]; {
		case word == "weight" && i+1 < len(fields):
			i++
			server.weight = fields[i]
			_, err := strconv.Atoi(fields[i])
			server.whole = server.whole && err == nil
		case word == "disabled":
			server.disabled = true
		case !plan.IsPlainKeyword(word):
			server.whole = false
		}
	}
	return server
}

// isHarmless reports that defaults leave weights and states alone.
func isHarmless(words []string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return !plan.IsPlainKeyword(word) })
}

// forget leaves weights and states to what the worker was loaded with.
func (b backends) forget() {
	for _, backend := range b {
		for name, server := range backend.servers {
			server.whole = false
			backend.servers[name] = server
		}
	}
}

// hasDefaults reports that servers of the backend get defaults from a line of
// its own or of any defaults section. One that is added to a worker does not.
func hasDefaults(config, name string) bool {
	applies := false
	for line := range strings.Lines(config) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case fields[0] == "defaults":
			applies = true
		case fields[0] == "backend" || fields[0] == "listen":
			applies = len(fields) > 1 && fields[1] == name
		case isSection(fields[0]):
			applies = false
		case applies && fields[0] == "default-server":
			return true
		}
	}
	return false
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
	seen := make(map[string]map[string]bool, len(want))
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
			seen[name] = make(map[string]bool, len(declared.servers))
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
	weight := at("srv_iweight")
	if server.whole {
		weight = server.weight
	}
	if at("srv_uweight") != weight {
		return fmt.Errorf("has another weight")
	}
	admin, err := strconv.Atoi(at("srv_admin_state"))
	if err != nil {
		return nil // not shown by this version
	}
	disabled := admin&configuredMaintenance != 0
	if server.whole {
		disabled = server.disabled
	}
	if admin&forcedDrain != 0 || (admin&forcedMaintenance != 0) != disabled {
		return fmt.Errorf("has another state")
	}
	return nil
}

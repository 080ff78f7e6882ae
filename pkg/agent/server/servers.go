package server

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-project/holdfast/pkg/plan"
)

// configured is a server line, as far as it can be read without HAProxy.
type configured struct {
	serverKey
	address netip.AddrPort
	known   bool // false: a name, a variable, a socket; only that it exists is known
	// weight and disabled are what the line asks for, if whole: otherwise the
	// worker is only held against what it was loaded with.
	whole    bool
	weight   string
	disabled bool
}

// backends are the servers of a configuration. A pod may have thousands, and they
// are read at every apply in place, so they lie in one list.
type backends struct {
	open map[string]bool // by name of the backend; true: it may have servers that no line names
	list []configured    // in the order of the lines, which is HAProxy's, too
	// index is made when something is not where it is looked for first.
	index func() map[serverKey]int
}

type serverKey struct{ backend, server string }

// find looks for a server, first at the place where it should be.
func (b *backends) find(backend, server []byte, at int) (int, bool) {
	if at < len(b.list) && b.list[at].backend == string(backend) && b.list[at].server == string(server) {
		return at, true
	}
	i, ok := b.index()[serverKey{string(backend), string(server)}]
	return i, ok
}

// configuredServers reads the server lines of a configuration. It reports false
// when conditions decide what is in force, which only HAProxy can tell.
func configuredServers(config string) (*backends, bool) {
	lines := strings.Count(config, "server ") // hardly more than there are servers
	found := &backends{open: make(map[string]bool), list: make([]configured, 0, lines)}
	found.index = sync.OnceValue(func() map[serverKey]int {
		index := make(map[serverKey]int, len(found.list))
		for i, server := range found.list {
			index[server.serverKey] = i
		}
		return index
	})
	var fields []string
	harmless := true // no default-server line changes weights and states
	current := ""    // the backend that lines belong to, if any
	for line := range strings.Lines(config) {
		word := firstWord(line)
		if word == "" || word[0] == '#' {
			continue
		}
		switch {
		case word[0] == '.' && word != ".diag" && word != ".notice" && word != ".warning" && word != ".alert":
			return nil, false
		case word == "backend" || word == "listen":
			if fields := strings.Fields(line); len(fields) > 1 {
				current = fields[1]
				found.open[current] = false
			}
		case isSection(word):
			current = ""
		case word == "default-server" && !isHarmless(strings.Fields(line)[1:]):
			harmless = false
		case current == "":
		case word == "server":
			if fields = slices.AppendSeq(fields[:0], strings.FieldsSeq(line)); len(fields) > 2 {
				found.list = append(found.list, readServer(current, fields))
			}
		case word == "server-template":
			found.open[current] = true
		}
	}
	if !harmless {
		found.forget()
	}
	return found, true
}

// firstWord is what a line begins with, after blanks.
func firstWord(line string) string {
	blank := func(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
	start := 0
	for start < len(line) && blank(line[start]) {
		start++
	}
	end := start
	for end < len(line) && !blank(line[end]) {
		end++
	}
	return line[start:end]
}

// serverReader reads the servers of a configuration once, whoever asks first. They
// are nil if conditions decide which are in force.
type serverReader func() (*backends, error)

func readServers(config func() ([]byte, error)) serverReader {
	return sync.OnceValues(func() (*backends, error) {
		content, err := config()
		if err != nil {
			return nil, err
		}
		if servers, ok := configuredServers(string(content)); ok {
			return servers, nil
		}
		return nil, nil
	})
}

// readServer reads one server line.
func readServer(backend string, fields []string) configured {
	address, err := netip.ParseAddrPort(fields[2])
	server := configured{serverKey: serverKey{backend, fields[1]}, address: address, known: err == nil, weight: "1", whole: true}
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

// first is the place of the first server of a backend, or -1 if no line names one.
func (b *backends) first(backend string) int {
	return slices.IndexFunc(b.list, func(server configured) bool { return server.backend == backend })
}

// addDiffering adds the backends whose server lines are not the same in both, and
// what lies between those: it only skips what both begin and end with.
func (b *backends) addDiffering(from *backends, found map[string]bool) {
	mine, theirs := b.list, from.list
	for len(mine) > 0 && len(theirs) > 0 && mine[0] == theirs[0] {
		mine, theirs = mine[1:], theirs[1:]
	}
	for len(mine) > 0 && len(theirs) > 0 && mine[len(mine)-1] == theirs[len(theirs)-1] {
		mine, theirs = mine[:len(mine)-1], theirs[:len(theirs)-1]
	}
	for _, between := range [][]configured{mine, theirs} {
		for _, server := range between {
			found[server.backend] = true
		}
	}
	for name, open := range b.open {
		if before, ok := from.open[name]; !ok || before != open {
			found[name] = true
		}
	}
}

// forget leaves weights and states to what the worker was loaded with.
func (b *backends) forget() {
	for i := range b.list {
		b.list[i].whole = false
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

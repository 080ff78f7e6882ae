package plan

import (
	"maps"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// backends finds what has to be done about servers.
func (c *composition) backends() bool {
	if len(c.from.Backends) != len(c.to.Backends) {
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(c.to.Backends)) {
		was, ok := c.from.Backends[name]
		now := c.to.Backends[name]
		if !ok {
			return false
		}
		if was.TextDigest != now.TextDigest && !(sameFrame(was, now) && c.servers(was, now)) {
			return false
		}
	}
	return true
}

// sameFrame reports that two records differ in nothing but servers and comments.
func sameFrame(was, now Backend) bool {
	if was.Name != now.Name || was.Profile != now.Profile || was.Mode != now.Mode || was.GUID != now.GUID ||
		was.Balance != now.Balance || was.HashType != now.HashType || was.BodyDigest != now.BodyDigest ||
		!sameKeywords(was.DefaultServer, now.DefaultServer) {
		return false
	}
	// A text that changed while all that is recorded stayed holds something else.
	return was.CommentsDigest != now.CommentsDigest || !reflect.DeepEqual(was.Servers, now.Servers)
}

func sameKeywords(a, b []Keyword) bool {
	return slices.EqualFunc(a, b, func(a, b Keyword) bool { return a.Name == b.Name && slices.Equal(a.Args, b.Args) })
}

// servers composes the operations of one backend: first what gives capacity,
// last what takes it away.
func (c *composition) servers(was, now Backend) bool {
	before, after := byName(was.Servers), byName(now.Servers)
	if len(before) != len(was.Servers) || len(after) != len(now.Servers) || !sameOrder(was.Servers, now.Servers, before, after) {
		return false
	}
	dynamic := was.Shape == ShapeDynamic && now.Shape == ShapeDynamic && len(now.DefaultServer) == 0
	var adds, changes, deletes []Operation
	for _, s := range now.Servers {
		old, stays := before[s.Name]
		switch {
		case stays:
			ops, ok := changeServer(now, old, s)
			if !ok {
				return false
			}
			changes = append(changes, ops...)
		case !dynamic || len(s.Extra) > 0 || s.GUID != "" || !isAddress(s):
			return false
		default:
			adds = append(adds, Operation{
				Kind: OpServerAdd, Backend: now.Name, Server: s.Name,
				Address: s.Address, Port: s.Port, Weight: s.Weight, Disabled: s.Disabled,
			})
		}
	}
	for _, s := range was.Servers {
		if _, stays := after[s.Name]; stays {
			continue
		}
		if !dynamic {
			return false
		}
		deletes = append(deletes, Operation{Kind: OpServerDelete, Backend: now.Name, Server: s.Name})
	}
	return c.add(adds...) && c.add(changes...) && c.add(deletes...)
}

func byName(servers []Server) map[string]Server {
	found := make(map[string]Server, len(servers))
	for _, s := range servers {
		found[s.Name] = s
	}
	return found
}

// sameOrder reports that the servers of both lists stand in the same order.
// Which one is first, or answers for a hash, depends on it.
func sameOrder(was, now []Server, before, after map[string]Server) bool {
	kept := func(servers []Server, others map[string]Server) (names []string) {
		for _, s := range servers {
			if _, ok := others[s.Name]; ok {
				names = append(names, s.Name)
			}
		}
		return names
	}
	return slices.Equal(kept(was, after), kept(now, before))
}

// changeServer brings one server to its new line.
func changeServer(backend Backend, was, now Server) ([]Operation, bool) {
	if was.GUID != now.GUID || !sameKeywords(was.Extra, now.Extra) {
		return nil, false
	}
	var ops []Operation
	op := Operation{Backend: backend.Name, Server: now.Name}
	if was.Address != now.Address || was.Port != now.Port {
		if !isAddress(was) || !isAddress(now) {
			return nil, false
		}
		address := op
		address.Kind, address.Address, address.Port = OpServerAddress, now.Address, now.Port
		ops = append(ops, address)
	}
	if !reflect.DeepEqual(was.Weight, now.Weight) {
		if !isDynamicBalance(backend.Balance) || now.Weight == nil && len(backend.DefaultServer) > 0 {
			return nil, false
		}
		weight := op
		weight.Kind, weight.Weight = OpServerWeight, now.Weight
		if weight.Weight == nil {
			weight.Weight = new(int64(1)) // what a line without one gets
		}
		ops = append(ops, weight)
	}
	if was.Disabled != now.Disabled {
		state := op
		state.Kind, state.Disabled = OpServerState, now.Disabled
		ops = append(ops, state)
	}
	if len(ops) > 0 && !(isPlain(now.Extra) && isPlain(backend.DefaultServer)) {
		return nil, false
	}
	return ops, true
}

func isAddress(s Server) bool {
	address, err := netip.ParseAddr(s.Address)
	return err == nil && address.Zone() == "" && s.Port > 0 && s.Port <= 65535
}

// isDynamicBalance names the algorithms that take other weights at any time. An
// empty one may be static by a defaults section; HAProxy refuses then.
func isDynamicBalance(balance string) bool {
	algorithm, _, _ := strings.Cut(balance, " ")
	return slices.Contains([]string{"", "roundrobin", "leastconn", "random"}, algorithm) || strings.HasPrefix(algorithm, "random(")
}

// plainKeywords are safe to keep while a server is changed.
var plainKeywords = []string{"check", "inter", "fastinter", "downinter", "fall", "rise", "maxconn", "maxqueue"}

var plainNumber = regexp.MustCompile(`^[0-9]+(us|ms|s|m|h|d)?$`)

func isPlain(keywords []Keyword) bool {
	for _, k := range keywords {
		for _, word := range append([]string{k.Name}, k.Args...) {
			if !IsPlainKeyword(word) {
				return false
			}
		}
	}
	return true
}

// IsPlainKeyword reports that a word of a server line, a keyword or a number,
// neither depends on the server's address, weight and state nor changes them,
// but for health checks, which follow the address.
func IsPlainKeyword(word string) bool {
	return slices.Contains(plainKeywords, word) || plainNumber.MatchString(word)
}

package node

import (
	"errors"
	"net/netip"
	"sync"

	"github.com/holdfast-project/holdfast/test/cluster/internal/netns"
)

// firstPodOffset leaves room for the node's own addresses.
const firstPodOffset = 10

// errNoAddress says that every pod address is taken.
var errNoAddress = errors.New("no pod address is free")

// addresses hands out pod addresses in turn, so that one is not used again
// until all others were: a stale client must not reach a pod's successor.
type addresses struct {
	mu     sync.Mutex
	prefix netip.Prefix
	next   netip.Addr
	taken  map[netip.Addr]bool
}

func newAddresses() *addresses {
	prefix := netip.MustParsePrefix(netns.PodCIDR)
	a := &addresses{prefix: prefix, taken: map[netip.Addr]bool{}}
	a.next = a.first()
	return a
}

func (a *addresses) first() netip.Addr {
	address := a.prefix.Addr()
	for range firstPodOffset {
		address = address.Next()
	}
	return address
}

func (a *addresses) take() (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for range 1 << (a.prefix.Addr().BitLen() - a.prefix.Bits()) {
		address := a.next
		a.next = address.Next()
		// The last address of the range is its broadcast address.
		if !a.prefix.Contains(a.next) {
			a.next = a.first()
			continue
		}
		if !a.taken[address] {
			a.taken[address] = true
			return address, nil
		}
	}
	return netip.Addr{}, errNoAddress
}

func (a *addresses) release(address netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.taken, address)
}

package netns

import (
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// localTable is the kernel's table of addresses that are its own.
const localTable = 255

// Configure prepares the network of the namespace the caller is in: loopback
// up, and pod and Service ranges local, so that any address in them can be
// bound and reached without an interface per pod. There is no way out.
func Configure() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding the loopback interface: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("starting the loopback interface: %w", err)
	}
	for _, cidr := range []string{PodCIDR, ServiceCIDR} {
		_, dst, err := net.ParseCIDR(cidr)
		if err != nil {
			return fmt.Errorf("reading %s: %w", cidr, err)
		}
		route := &netlink.Route{
			LinkIndex: lo.Attrs().Index,
			Dst:       dst,
			Table:     localTable,
			Type:      unix.RTN_LOCAL,
			Scope:     netlink.SCOPE_HOST,
		}
		if err := netlink.RouteAdd(route); err != nil {
			return fmt.Errorf("making %s local: %w", cidr, err)
		}
	}
	// As container runtimes do: an unprivileged pod may bind port 80.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0o644); err != nil {
		return fmt.Errorf("opening low ports to pods: %w", err)
	}
	return nil
}

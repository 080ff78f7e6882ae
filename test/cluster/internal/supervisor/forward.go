package supervisor

import (
	"context"
	"net"

	"github.com/holdfast-project/holdfast/test/cluster/internal/inside"
)

// forwardAll carries every connection on the host's port to the socket that
// leads into the namespace.
func forwardAll(ctx context.Context, listener net.Listener, socket string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			dialer := net.Dialer{}
			inner, err := dialer.DialContext(ctx, "unix", socket)
			if err != nil {
				_ = conn.Close()
				return
			}
			inside.Splice(conn, inner)
		}()
	}
}

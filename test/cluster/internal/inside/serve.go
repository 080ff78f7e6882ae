package inside

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/test/cluster/internal/netns"
	"github.com/holdfast-project/holdfast/test/cluster/internal/state"
)

// serve opens the two sockets that lead into the namespace. Unix sockets are
// found by file name, so they cross network namespaces.
func serve(ctx context.Context, dir state.Dir, c *children) error {
	for _, old := range []string{dir.APISocket(), dir.ControlSocket()} {
		_ = os.Remove(old)
	}
	api, err := net.Listen("unix", dir.APISocket())
	if err != nil {
		return fmt.Errorf("listening for the forwarder: %w", err)
	}
	control, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: dir.ControlSocket(), Net: "unixpacket"})
	if err != nil {
		return fmt.Errorf("listening for commands: %w", err)
	}
	context.AfterFunc(ctx, func() {
		_ = api.Close()
		_ = control.Close()
	})
	go acceptAll(ctx, api, func(conn net.Conn) { forward(ctx, conn) })
	go acceptAll(ctx, control, func(conn net.Conn) { c.runCommand(ctx, conn.(*net.UnixConn)) })
	return nil
}

func acceptAll(ctx context.Context, listener net.Listener, handle func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Stopped accepting connections")
			}
			return
		}
		go handle(conn)
	}
}

func forward(ctx context.Context, outer net.Conn) {
	defer outer.Close()
	dialer := net.Dialer{}
	inner, err := dialer.DialContext(ctx, "tcp", netns.APIServerAddress)
	if err != nil {
		return
	}
	Splice(outer, inner)
}

// Splice copies both ways until both directions ended, passing on each
// half-close, and closes both.
func Splice(a, b net.Conn) {
	defer a.Close()
	defer b.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		copyHalf(a, b)
	}()
	copyHalf(b, a)
	<-done
}

func copyHalf(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = to.Close()
}

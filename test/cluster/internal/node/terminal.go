package node

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	"golang.org/x/sys/unix"

	"github.com/holdfast-project/holdfast/test/cluster/internal/process"
)

// runTerminal runs a command on a pseudo terminal, for kubectl exec -it.
func runTerminal(ctx context.Context, running *process.Process, command []string, attach api.AttachIO) (int, error) {
	outer, inner, err := openTerminal()
	if err != nil {
		return 0, err
	}
	defer outer.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go resize(ctx, outer, attach.Resize())
	if in := attach.Stdin(); in != nil {
		go func() { _, _ = io.Copy(outer, in) }()
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		if out := attach.Stdout(); out != nil {
			_, _ = io.Copy(out, outer)
		}
	}()
	code, err := running.Exec(ctx, command, process.Streams{Terminal: inner})
	// With our end of the inner side closed, reading ends after the last byte.
	_ = inner.Close()
	if err == nil {
		<-copied
	}
	return code, err
}

func openTerminal() (outer, inner *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening a terminal: %w", err)
	}
	outer = os.NewFile(uintptr(fd), "/dev/ptmx")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		_ = outer.Close()
		return nil, nil, fmt.Errorf("unlocking a terminal: %w", err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		_ = outer.Close()
		return nil, nil, fmt.Errorf("naming a terminal: %w", err)
	}
	inner, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		_ = outer.Close()
		return nil, nil, fmt.Errorf("opening a terminal: %w", err)
	}
	return outer, inner, nil
}

func resize(ctx context.Context, terminal *os.File, sizes <-chan api.TermSize) {
	for {
		select {
		case <-ctx.Done():
			return
		case size, ok := <-sizes:
			if !ok {
				return
			}
			_ = unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Height, Col: size.Width})
		}
	}
}

package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-project/holdfast/test/cluster/internal/environment"
)

// Streams are the standard files of a command; nil ones are /dev/null.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Terminal is both of the above at once, for an interactive command.
	Terminal *os.File
}

// Exec runs a command in the container's namespaces with its environment and
// user, and answers the exit code. When the context ends, it is killed.
func (p *Process) Exec(ctx context.Context, args []string, streams Streams) (int, error) {
	if len(args) == 0 {
		return 0, errors.New("no command given")
	}
	type started struct {
		cmd *exec.Cmd
		err error
	}
	result := make(chan started, 1)
	go func() {
		cmd, err := p.startInside(ctx, args, streams)
		result <- started{cmd, err}
	}()
	r := <-result
	if r.err != nil {
		return 0, r.err
	}
	err := r.cmd.Wait()
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if r.cmd.ProcessState == nil {
		return 0, fmt.Errorf("running %s: %w", args[0], err)
	}
	return exitOf(r.cmd.ProcessState, err).Code, nil
}

// startInside moves its own thread into the container's namespaces and starts
// the command from there: a child inherits them. The thread can never go back,
// so it is never unlocked and ends with the goroutine.
func (p *Process) startInside(ctx context.Context, args []string, streams Streams) (*exec.Cmd, error) {
	runtime.LockOSThread()
	select {
	case <-p.done:
		runtime.UnlockOSThread()
		return nil, ErrEnded
	default:
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return nil, fmt.Errorf("entering container: %w", err)
	}
	if err := unix.Setns(p.pidfd, namespaces); err != nil {
		return nil, fmt.Errorf("entering container: %w", err)
	}
	path, err := p.find(args[0])
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path)
	cmd.Args = args
	cmd.Env = p.spec.Env
	cmd.Dir = p.spec.Dir
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = streams.In, streams.Out, streams.Err
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if streams.Terminal != nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = streams.Terminal, streams.Terminal, streams.Terminal
		cmd.SysProcAttr.Setctty = true
	}
	if user := p.spec.User; user != nil {
		credential := &syscall.Credential{Uid: uint32(user.UID), Gid: uint32(user.GID)}
		for _, group := range user.Groups {
			credential.Groups = append(credential.Groups, uint32(group))
		}
		cmd.SysProcAttr.Credential = credential
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", args[0], err)
	}
	return cmd, nil
}

// find searches the container's PATH from inside it.
func (p *Process) find(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	if found, ok := environment.LookPath(name, p.spec.Env); ok {
		return found, nil
	}
	return "", fmt.Errorf("command %s was not found in the container's PATH", name)
}

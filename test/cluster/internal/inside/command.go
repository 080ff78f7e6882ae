package inside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	env "github.com/holdfast-project/holdfast/test/cluster/internal/environment"
)

const (
	maxRequestBytes = 1 << 20
	maxFiles        = 3
	killDelay       = 2 * time.Second
	// exitNotStarted is what shells answer for a command that is not there.
	exitNotStarted = 127
)

// request asks for one command; its three standard files travel beside it.
type request struct {
	Args []string `json:"args"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
}

// event is what follows: signals one way, the end the other way.
type event struct {
	Signal int    `json:"signal,omitempty"`
	Exited bool   `json:"exited,omitempty"`
	Code   int    `json:"code,omitempty"`
	Error  string `json:"error,omitempty"`
}

// runCommand serves one connection: one command. When the client goes away the
// command goes too, or it would be left behind unseen.
func (c *children) runCommand(ctx context.Context, conn *net.UnixConn) {
	defer conn.Close()
	answer := c.serveCommand(ctx, conn)
	text, err := json.Marshal(answer)
	if err == nil {
		_, _ = conn.Write(text)
	}
}

func (c *children) serveCommand(ctx context.Context, conn *net.UnixConn) event {
	req, files, err := receive(conn)
	defer closeAll(files)
	if err != nil {
		return event{Exited: true, Code: exitNotStarted, Error: err.Error()}
	}
	path, err := lookPath(req)
	if err != nil {
		return event{Exited: true, Code: exitNotStarted, Error: err.Error()}
	}
	cmd := &exec.Cmd{Path: path, Args: req.Args, Env: req.Env, Dir: req.Dir}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[1], files[2]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.start(cmd); err != nil {
		return event{Exited: true, Code: exitNotStarted, Error: err.Error()}
	}
	ended := make(chan error, 1)
	go func() { ended <- c.wait(cmd) }()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		passSignals(conn, cmd.Process.Pid)
	}()
	select {
	case err = <-ended:
	case <-gone:
		err = endGroup(cmd.Process.Pid, ended)
	case <-ctx.Done():
		err = endGroup(cmd.Process.Pid, ended)
	}
	return event{Exited: true, Code: exitCode(cmd, err)}
}

func endGroup(pid int, ended <-chan error) error {
	_ = syscall.Kill(-pid, syscall.SIGTERM)
	select {
	case err := <-ended:
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		return err
	case <-time.After(killDelay):
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		return <-ended
	}
}

func passSignals(conn *net.UnixConn, pid int) {
	buffer := make([]byte, 4096)
	for {
		n, err := conn.Read(buffer)
		if err != nil || n == 0 {
			return
		}
		var e event
		if json.Unmarshal(buffer[:n], &e) == nil && e.Signal > 0 {
			_ = syscall.Kill(-pid, syscall.Signal(e.Signal))
		}
	}
}

func receive(conn *net.UnixConn) (request, []*os.File, error) {
	var req request
	buffer := make([]byte, maxRequestBytes)
	control := make([]byte, unix.CmsgSpace(maxFiles*4))
	n, controlBytes, flags, _, err := conn.ReadMsgUnix(buffer, control)
	if err != nil {
		return req, nil, fmt.Errorf("reading request: %w", err)
	}
	files, err := receivedFiles(control[:controlBytes])
	if err != nil {
		return req, files, err
	}
	if flags&unix.MSG_TRUNC != 0 {
		return req, files, errors.New("arguments and environment are too large")
	}
	if err := json.Unmarshal(buffer[:n], &req); err != nil {
		return req, files, fmt.Errorf("reading request: %w", err)
	}
	if len(files) != maxFiles || len(req.Args) == 0 {
		return req, files, errors.New("the request names no command or lacks its files")
	}
	return req, files, nil
}

func receivedFiles(control []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, fmt.Errorf("reading files: %w", err)
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return files, fmt.Errorf("reading files: %w", err)
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// lookPath searches the client's PATH, not ours.
func lookPath(req request) (string, error) {
	name := req.Args[0]
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(req.Dir, name)
		}
		return name, nil
	}
	if found, ok := env.LookPath(name, req.Env); ok {
		return found, nil
	}
	return "", fmt.Errorf("%s: command not found", name)
}

func exitCode(cmd *exec.Cmd, err error) int {
	if cmd.ProcessState == nil {
		return exitNotStarted
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code
	}
	if err != nil {
		return 1
	}
	return 0
}

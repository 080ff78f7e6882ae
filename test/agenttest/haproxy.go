package agenttest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// version is what the replaced HAProxy says it is.
const version = "3.0.11-agenttest"

// firstPID is above what the kernel gives out, so that no test can end a
// process by one of these.
const firstPID = 1 << 22

// haproxy is a master and its worker, as far as their sockets show them.
type haproxy struct {
	dir    string
	refuse func(config []byte) string

	mu      sync.Mutex
	reloads int
	failed  int
	loads   int // over restarts, for process IDs
	began   time.Time
	nonce   string
	config  []byte

	serving sync.WaitGroup
	close   func() error
}

// start is what the container does: load what is on disk, or end.
func (h *haproxy) start(ctx context.Context) error {
	h.mu.Lock()
	h.reloads, h.failed = 0, 0
	problem := h.load()
	h.mu.Unlock()
	if problem != "" {
		return errors.New(problem)
	}
	run := filepath.Join(h.dir, "run")
	var listeners []net.Listener
	h.close = func() (err error) {
		for _, l := range listeners {
			err = errors.Join(err, l.Close())
		}
		return err
	}
	for _, name := range []string{"master.sock", "worker.sock"} {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "unix", filepath.Join(run, name))
		if err != nil {
			return errors.Join(err, h.close())
		}
		listeners = append(listeners, listener)
		h.serving.Go(func() { h.serve(listener) })
	}
	return nil
}

func (h *haproxy) stop() error {
	err := h.close()
	h.serving.Wait()
	return err
}

func (h *haproxy) serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		command, err := bufio.NewReader(conn).ReadString('\n')
		if err == nil {
			_, _ = io.WriteString(conn, h.answer(strings.TrimSpace(command)))
		}
		_ = conn.Close()
	}
}

// load takes what is on disk, and returns why not.
func (h *haproxy) load() string {
	config, err := os.ReadFile(filepath.Join(h.dir, "current", "haproxy.cfg"))
	if err != nil {
		return err.Error()
	}
	nonce, err := os.ReadFile(filepath.Join(h.dir, "nonce.cfg"))
	if err != nil {
		return err.Error()
	}
	if h.refuse != nil {
		if problem := h.refuse(config); problem != "" {
			return "[ALERT] config : " + problem
		}
	}
	_, after, _ := strings.Cut(string(nonce), "description ")
	h.nonce, _, _ = strings.Cut(after, "\n")
	h.config, h.began = config, time.Now()
	h.loads++
	return ""
}

func (h *haproxy) worker() int { return firstPID + h.loads }

func (h *haproxy) answer(command string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	command, _ = strings.CutPrefix(command, fmt.Sprintf("@!%d ", h.worker()))
	switch command {
	case "reload":
		h.reloads++
		if problem := h.load(); problem != "" {
			h.failed++
			return "Success=0\n--\n" + problem + "\n"
		}
		h.failed = 0
		return "Success=1\n--\n"
	case "show proc":
		return fmt.Sprintf("#<PID> <type> <reloads> <uptime> <version>\n%d master %d [failed: %d] 0d00h00m01s %s\n# workers\n%d worker %d 0d00h00m01s %s\n# programs\n\n",
			firstPID, h.reloads, h.failed, version, h.worker(), h.failed, version)
	case "show info":
		return fmt.Sprintf("Name: HAProxy\nVersion: %s\nPid: %d\nCurrConns: 0\ndescription: %s\nStart_time_sec: %d\n\n",
			version, h.worker(), h.nonce, h.began.Unix())
	case "show map", "show acl", "show ssl cert", "show servers state", "show sess":
		return "\n"
	}
	return "Unknown command.\n\n"
}

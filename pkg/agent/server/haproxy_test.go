package server

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// oftenUnlessFull is how often a test repeats what it does: fully in
// hack/haproxy-matrix.sh, less in an everyday run.
func oftenUnlessFull(full, everyday int) int {
	if os.Getenv("HOLDFAST_TEST_FULL") != "" {
		return full
	}
	return everyday
}

// haproxyBinary is the real one. Only a developer's machine may go without.
func haproxyBinary(t *testing.T) string {
	t.Helper()
	name := "haproxy"
	if other := os.Getenv("HOLDFAST_TEST_HAPROXY"); other != "" {
		name = other // hack/haproxy-matrix.sh
	}
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("haproxy is not installed, and CI must run these tests")
		}
		t.Skip("haproxy is not installed: install it to run the tests against the real binary")
	}
	return path
}

func (p *pod) startHAProxy() {
	p.t.Helper()
	p.startHAProxyWith("-dr")
}

func (p *pod) startHAProxyWith(flags ...string) {
	p.t.Helper()
	arguments := append([]string{"-W"}, flags...)
	command := exec.Command(haproxyBinary(p.t), append(arguments, "-S", p.layout.masterSocket()+",level,admin",
		"-f", filepath.Join(p.layout.current(), "haproxy.cfg"), "-f", p.layout.nonce())...)
	command.Env = append(os.Environ(), "POD_IP=127.0.0.1")
	command.Stdout, command.Stderr = p.log, p.log
	if err := command.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.haproxy = command
	p.t.Cleanup(p.killHAProxy)
}

// killHAProxy ends the master and its workers at once, as a node would.
func (p *pod) killHAProxy() {
	if p.haproxy == nil {
		return
	}
	seen, _ := (&supervisor{master: p.layout.masterSocket()}).observe(context.Background())
	_ = p.haproxy.Process.Kill()
	_ = p.haproxy.Wait()
	if seen.Worker > 0 {
		_ = syscall.Kill(int(seen.Worker), syscall.SIGKILL)
	}
	p.haproxy = nil
	// A killed process answers until the kernel has come to it.
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		conn, err := net.Dial("tcp", p.frontend())
		if err != nil {
			return
		}
		conn.Close()
	}
}

// restartHAProxy is a restart of HAProxy's container beside a running agent. It
// returns when the agent knows the new worker: the old one may answer for
// another moment, killed or not.
func (p *pod) restartHAProxy() {
	p.t.Helper()
	before := p.state(true).HAProxy
	p.killHAProxy()
	p.startHAProxy()
	eventually(p.t, "a restarted worker", func() bool {
		now := p.state(true)
		return now.WorkerStatus == api.WorkerOwned && now.HAProxy != before
	})
}

package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// startTorn starts HAProxy as a container does that opens its first files before
// a switch and the last one, with the nonce, after it. Its next reload reads what
// is current.
func (p *pod) startTorn(set, nonceOfSet string) error {
	config, nonce := filepath.Join(p.dir, "torn"), filepath.Join(p.dir, "torn.cfg")
	files, err := filepath.Abs(filepath.Join(p.layout.dir, set))
	if err == nil {
		err = os.Symlink(files, config)
	}
	if err == nil {
		err = os.Symlink(filepath.Join(p.layout.dir, nonceOfSet, "..", setNonce), nonce)
	}
	if err != nil {
		return err
	}
	p.haproxy = exec.Command(haproxyBinary(p.t), "-W", "-dr", "-S", p.layout.masterSocket()+",level,admin",
		"-f", filepath.Join(config, api.ConfigPath), "-f", nonce)
	p.haproxy.Env = append(os.Environ(), "POD_IP=127.0.0.1")
	p.haproxy.Stdout, p.haproxy.Stderr = p.log, p.log
	if err := p.haproxy.Start(); err != nil {
		return err
	}
	s := &supervisor{master: p.layout.masterSocket(), worker: p.layout.workerSocket()}
	for {
		if seen, err := s.observeBoth(p.t.Context()); err == nil && seen.MasterPID == int64(p.haproxy.Process.Pid) {
			break
		}
		if err := pause(p.t.Context(), pollStart); err != nil {
			return err
		}
	}
	for link, target := range map[string]string{config: p.layout.current(), nonce: p.layout.nonce()} {
		_ = os.Remove(link)
		if err := os.Symlink(target, link); err != nil {
			return err
		}
	}
	return nil
}

// TestP20RestartBesideTheSwitch: HAProxy opens one file after the other, so that a
// container which starts while a set becomes current may carry the new nonce over
// old maps. It is loaded once more, and nobody takes its nonce for a proof.
func TestP20RestartBesideTheSwitch(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.mustLoad(p.rich("start"))
	next, torn := p.rich("next").with("maps/hosts.map", "other rows\n"), false
	p.agent.disk.intercept(func(step string) error {
		if torn || step != "rename "+p.layout.current() {
			return nil
		}
		torn = true
		old, err := os.Readlink(p.layout.current())
		must(t, err)
		staged, err := os.Readlink(p.layout.forward())
		must(t, err)
		p.killHAProxy()
		return p.startTorn(old, staged)
	})
	result := p.apply(next)
	if !torn || result.Mode != api.OutcomeReload || p.served() != "next" {
		t.Fatalf("ended as %s and serves %q", result.Mode, p.served())
	}
	p.mustRun(next, "after a container that started beside the switch")
}

// TestP20RestartBesideTheWayBack: the same while a refused set is left again.
func TestP20RestartBesideTheWayBack(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	start := p.rich("start")
	p.mustLoad(start)
	taken := p.rich("refused").with("maps/hosts.map", "other rows\n")
	taken[api.ConfigPath] += "    server broken\n"
	renames := 0
	p.agent.disk.intercept(func(step string) error {
		if step != "rename "+p.layout.current() {
			return nil
		}
		if renames++; renames != 2 {
			return nil
		}
		refused, err := os.Readlink(p.layout.current())
		must(t, err)
		previous, err := os.Readlink(p.layout.back())
		must(t, err)
		// Nothing of the refused set would start if it did not hold by now.
		config := filepath.Join(p.layout.dir, refused, api.ConfigPath)
		writeFile(t, config, strings.Replace(taken[api.ConfigPath], "    server broken\n", "", 1))
		p.killHAProxy()
		return p.startTorn(refused, previous)
	})
	if result := p.apply(taken); result.Mode != api.OutcomeRejected || renames != 2 {
		t.Fatalf("ended as %s after %d switches", result.Mode, renames)
	}
	if got := p.served(); got != "start" {
		t.Errorf("frontend serves %q", got)
	}
	p.mustRun(start, "after a container that started beside the way back")
}

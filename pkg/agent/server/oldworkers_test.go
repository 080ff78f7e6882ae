package server

import (
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

func TestSessionsOf(t *testing.T) {
	answer := "0x556295734e60: proto=tcpv4 src=127.0.0.1:38276 fe=main be=main srv=s ts=00 age=2s\n" +
		"0x7ff8e8039b60: proto=sockpair src=unix:2 fe=GLOBAL be=<NONE> srv=<none> ts=00\n" +
		"0x1; quit: proto=tcpv4 fe=main be=main\n" +
		"no session: fe=main\n" +
		"0x99: proto=tcpv4 src=[::1]:38276 fe=other be=main srv=s\n\n"
	if diff := cmp.Diff([]string{"0x556295734e60", "0x99"}, sessionsOf(answer)); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
}

// tunnels is a server whose connections last, and a way to it through HAProxy.
type tunnels struct {
	p     *pod
	port  int
	after net.Listener
}

func (p *pod) tunnels() *tunnels {
	p.t.Helper()
	after, err := net.Listen("tcp", "127.0.0.1:0")
	must(p.t, err)
	p.t.Cleanup(func() { after.Close() })
	return &tunnels{p: p, port: freePort(p.t), after: after}
}

// output answers like any other and has the tunnel besides.
func (l *tunnels) output(answer string) output {
	return output{api.ConfigPath: l.p.config(answer) + fmt.Sprintf(`listen tunnel
    mode tcp
    timeout client 100s
    timeout server 100s
    bind "${POD_IP}:%d"
    server after %s
`, l.port, l.after.Addr())}
}

// hold opens a connection that its worker has to keep until one side closes it.
func (l *tunnels) hold() session {
	t := l.p.t
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", l.port))
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	other, err := l.after.Accept()
	must(t, err)
	t.Cleanup(func() { other.Close() })
	return session{conn, other}
}

// session is a held connection with its end behind HAProxy.
type session struct {
	net.Conn
	other net.Conn
}

func (s session) close() {
	s.Conn.Close()
	s.other.Close()
}

// TestP18OldWorkersAreBounded: with a session held in every worker, a reload at
// the bound closes those of the oldest worker and of no other.
func TestP18OldWorkersAreBounded(t *testing.T) {
	t.Parallel()
	p := layPod(t)
	p.maxOld = 3
	l := p.tunnels()
	p.startHAProxy()
	p.startAgent()
	var held []session
	for i := range 8 {
		p.mustLoad(l.output(fmt.Sprintf("round %d", i)))
		held = append(held, l.hold())
		state := p.state(true)
		if want := (&api.OldWorkers{Count: min(i, p.maxOld), Limit: p.maxOld}); !cmp.Equal(want, state.OldWorkers) {
			t.Fatalf("round %d: old workers %+v, want %+v", i, state.OldWorkers, want)
		}
	}
	if got := p.served(); got != "round 7" {
		t.Errorf("frontend serves %q", got)
	}
	for i, conn := range held {
		must(t, conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		_, err := conn.Read(make([]byte, 1))
		timeout, ok := err.(net.Error)
		if kept := ok && timeout.Timeout(); kept != (i >= 4) {
			t.Errorf("session of round %d is kept: %t (%v)", i, kept, err)
		}
	}
	if got := metricOf(t, p.agent.metrics.oldWorkersStop); got != 4 {
		t.Errorf("stopped %v old workers, want 4", got)
	}
	eventually(t, "a report of memory", func() bool { return metricOf(t, p.agent.metrics.workersResident) > 1<<20 })
	for _, conn := range held {
		conn.close()
	}
	eventually(t, "the end of the old workers", func() bool { return p.state(true).OldWorkers.Count == 0 })
}

// TestP18ReloadStorm: sixty outputs in quick succession make as many reloads as
// the pace allows, and the last one is what runs.
func TestP18ReloadStorm(t *testing.T) {
	t.Parallel()
	p := layPod(t)
	p.pace, p.maxOld = 500*time.Millisecond, 4
	l := p.tunnels()
	p.startHAProxy()
	p.startAgent()
	began, most := time.Now(), 0
	for i := range 60 {
		result := p.apply(l.output(fmt.Sprintf("round %d", i)))
		if !result.OK {
			t.Fatalf("round %d: %+v", i, result.Error)
		}
		l.hold()
		if old := p.state(false).OldWorkers; old != nil {
			most = max(most, old.Count)
		}
		must(t, pause(t.Context(), 50*time.Millisecond))
	}
	state := p.settled()
	allowed := int(time.Since(began)/p.pace) + 2
	if reloads := int(state.Generation); reloads > allowed || most > p.maxOld {
		t.Errorf("%d reloads, allowed are %d; %d old workers, allowed are %d", reloads, allowed, most, p.maxOld)
	}
	if got := p.served(); got != "round 59" {
		t.Errorf("frontend serves %q", got)
	}
	t.Logf("60 outputs in %s: %d reloads, at most %d old workers", time.Since(began).Round(time.Millisecond), state.Generation, most)
}

// TestP18AnOldWorkerThatDoesNotEnd: the reload waits, the state says so, and it
// happens by itself once there is room.
func TestP18AnOldWorkerThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	p := layPod(t)
	p.maxOld = 1
	p.startHAProxy()
	p.startAgent()
	l := p.tunnels()
	stuck := p.mustLoad(l.output("one")).HAProxy.WorkerPID
	l.hold()
	p.mustLoad(l.output("two"))
	must(t, syscall.Kill(int(stuck), syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(int(stuck), syscall.SIGCONT) })
	scheduled := p.mustSchedule(l.output("three"))
	if state := p.state(true); state.ReloadPendingAt == nil || state.ReloadPendingAt.After(time.Now()) || state.OldWorkers.Count != 1 {
		t.Errorf("while it waits: %+v", state)
	}
	if p.served() != "two" {
		t.Errorf("frontend serves %q while the reload waits", p.served())
	}
	must(t, syscall.Kill(int(stuck), syscall.SIGCONT))
	if state := p.settled(); state.RunningPlanID != scheduled.PlanID || p.served() != "three" {
		t.Errorf("in the end it serves %q: %+v", p.served(), state)
	}
}

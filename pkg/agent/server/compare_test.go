package server

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

func TestSameRows(t *testing.T) {
	const file = "# comment\n\nk  v w   \n  lead x\nonly\r\ntab\tv\t \nk 3"
	const worker = "0x1 k v w\n0x2 lead x\n0x3 only \n0x4 tab v\n0x5 k 3\n\n"
	tests := []struct {
		name   string
		worker string
		drift  string // empty: the same
		err    error
	}{
		{"what HAProxy shows of the file is the file", worker, "", nil},
		{"a row more", worker[:len(worker)-1] + "0x6 n 1\n\n", "rows end at 6", nil},
		{"a row less", strings.Replace(worker, "0x5 k 3\n", "", 1), "rows end at 5", nil},
		{"another value", strings.Replace(worker, "k 3", "k 4", 1), "row 5 differs", nil},
		{"another order", "0x1 lead x\n0x2 k v w\n0x3 only \n0x4 tab v\n0x5 k 3\n\n", "row 1 differs", nil},
		{"an answer that is cut is none", worker[:20], "", io.ErrUnexpectedEOF},
		{"an answer that is cut between rows is none", worker[:len(worker)-1], "", io.ErrUnexpectedEOF},
		{"no answer is none", "", "", io.ErrUnexpectedEOF},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := sameRows(strings.NewReader(file), strings.NewReader(tc.worker))
			var drift *driftError
			if errors.As(err, &drift) != (tc.drift != "") || tc.drift != "" && !strings.Contains(drift.what, tc.drift) {
				t.Errorf("got %v, want drift %q", err, tc.drift)
			}
			if tc.drift == "" && !errors.Is(err, tc.err) {
				t.Errorf("got %v, want %v", err, tc.err)
			}
		})
	}
}

const serversHeader = "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight srv_agent_state srv_fqdn srv_port\n"

func TestCheckServers(t *testing.T) {
	const config = `
backend b # comment
    server s1 127.0.0.1:1 weight 10
    server s2 [2001:db8::1]:2 disabled
    server s3 name.example:80
    # server s9 127.0.0.1:9
listen l
    server t 10.0.0.1:1
    server-template u 1-2 127.0.0.1:80
frontend f
    server x 127.0.0.1:1
`
	const good = serversHeader + "2 b 1 s1 127.0.0.1 2 0 10 10 0 - 1\n2 b 2 s2 2001:db8::1 0 5 1 1 0 - 2\n" +
		"2 b 3 s3 192.0.2.9 2 32 1 1 0 name.example 80\n3 l 1 t 10.0.0.1 2 0 1 1 0 - 1\n3 l 2 u1 127.0.0.1 2 0 1 1 0 - 80\n4 other 1 z 1.2.3.4 2 1 1 1 0 - 1\n\n"
	tests := []struct {
		name     string
		from, to string
		drift    string
	}{
		{"as configured", "", "", ""},
		{"another address", "127.0.0.1 2 0 10 10 0 - 1\n", "127.0.0.9 2 0 10 10 0 - 1\n", "b/s1: has another address"},
		{"another port", "127.0.0.1 2 0 10 10 0 - 1\n", "127.0.0.1 2 0 10 10 0 - 9\n", "b/s1: has another address"},
		{"another weight", "0 10 10 0", "0 5 10 0", "b/s1: has another weight"},
		{"a weight that an agent set", "0 10 10 0", "0 5 10 3", ""},
		{"put into maintenance", "2 0 10", "0 1 10", "b/s1: has another state"},
		{"taken out of maintenance", "0 5 1", "2 4 1", "b/s2: has another state"},
		{"drained", "2 0 10", "2 8 10", "b/s1: has another state"},
		{"a resolver's address", "192.0.2.9", "192.0.2.10", ""},
		{"one more", "b 1 s1", "b 1 s0 127.0.0.1 2 0 1 1 0 - 1\n2 b 1 s1", "b/s0: is not in the configuration"},
		{"one more beside a template", "l 2 u1", "l 2 u7", ""},
		{"one less", "3 l 1 t 10.0.0.1 2 0 1 1 0 - 1\n", "", "l/t is not there"},
	}
	want, ok := configuredServers(config)
	if !ok {
		t.Fatal("configuration was not read")
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			answer := strings.Replace(good, tc.from, tc.to, 1)
			if tc.from != "" && answer == good {
				t.Fatal("the case changes nothing")
			}
			err := checkServers(strings.NewReader(answer), want, "")
			if (err != nil) != (tc.drift != "") || err != nil && !strings.Contains(err.Error(), tc.drift) {
				t.Errorf("got %v, want %q", err, tc.drift)
			}
		})
	}
	if _, ok := configuredServers(".if defined(X)\n" + config + ".endif\n"); ok {
		t.Error("conditions of HAProxy were ignored")
	}
}

// FuzzWorkerAnswers: what HAProxy or a configuration may hold never ends the
// agent.
func FuzzWorkerAnswers(f *testing.F) {
	f.Add("k v\n", "0x1 k v\n\n", "backend b\n server s 1.2.3.4:5\n", serversHeader+"2 b 1 s 1.2.3.4 2 0 1 1 0 - 5\n\n")
	f.Fuzz(func(_ *testing.T, file, rows, config, servers string) {
		_ = sameRows(strings.NewReader(file), strings.NewReader(rows))
		patternFiles(rows)
		sessionsOf(rows)
		if want, ok := configuredServers(config); ok {
			_ = checkServers(strings.NewReader(servers), want, "b")
		}
	})
}

// rich is an output with something of everything that can drift.
func (p *pod) rich(answer string) output {
	o := p.keyed(answer).with("maps/hosts.map", "# hosts\n\na.example  one\nb.example two words \na.example again\n").with("paths.lst", "/a\n/b\n")
	o[api.ConfigPath] += fmt.Sprintf(`    http-request deny if { path,map(maps/hosts.map) -m found }
    http-request deny if { path -f paths.lst } { path /z }
    bind "${POD_IP}:%d" ssl crt x.pem
    use_backend b if { path /b }
backend b
    server s1 127.0.0.1:1 weight 10
    server s2 127.0.0.1:2 disabled
`, p.tlsPort())
	return o
}

func (p *pod) tlsPort() int {
	if p.second == 0 {
		p.second = freePort(p.t)
	}
	return p.second
}

// TestLockedCertificatesAreAskedAgain: HAProxy answers one command on certificates
// while another is at work with a refusal, which is not an empty list.
func TestLockedCertificatesAreAskedAgain(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "worker.sock")
	listener, err := net.Listen("unix", socket)
	must(t, err)
	defer listener.Close()
	go func() {
		for n := 0; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			answer := "Can't show!\nOperations on certificates are currently locked!\n\n"
			if n > 1 {
				answer = "# transaction\n*x.pem\n\n"
			}
			_, _ = io.Copy(io.Discard, conn)
			_, _ = io.WriteString(conn, answer)
			conn.Close()
		}
	}()
	c := comparison{view: view{socket: socket}, files: map[string]api.File{"x.pem": {Path: "x.pem"}}}
	var drift *driftError
	if err := c.certificates(t.Context()); !errors.As(err, &drift) {
		t.Errorf("an open transaction behind a lock: %v", err)
	}
}

// byHand gives the current worker a command, as somebody with a shell would.
func (p *pod) byHand(commands ...string) {
	p.t.Helper()
	for _, command := range commands {
		answer, err := ask(p.t.Context(), p.layout.workerSocket(), command)
		must(p.t, err)
		if strings.Contains(answer, "nknown") || strings.Contains(answer, "an't") {
			p.t.Fatalf("%s: %s", command, answer)
		}
	}
}

// TestP15DriftIsNamed: what was changed in the worker by hand is found by the
// next verified read, named, no basis for a noop, and healed by a reload.
func TestP15DriftIsNamed(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	certificate, key := p.certs.pair(t, "other.example")
	tests := []struct {
		name      string
		commands  []string
		invariant string
	}{
		{"nothing", nil, ""},
		{"a row added to a map", []string{"add map maps/hosts.map c.example three"}, violationMaps},
		{"a row that is there twice", []string{"add map maps/hosts.map a.example one"}, violationMaps},
		{"a row removed", []string{"del map maps/hosts.map b.example"}, violationMaps},
		{"a value changed", []string{"set map maps/hosts.map b.example x"}, violationMaps},
		{"all rows removed", []string{"clear map maps/hosts.map"}, violationMaps},
		{"a line added to a list", []string{"add acl paths.lst /c"}, violationMaps},
		{"a server's address changed", []string{"set server b/s1 addr 127.0.0.9 port 9"}, violationServers},
		{"a server's weight changed", []string{"set server b/s1 weight 5"}, violationServers},
		{"a server in maintenance", []string{"set server b/s1 state maint"}, violationServers},
		{"a server taken out of it", []string{"set server b/s2 state ready"}, violationServers},
		{"a server added", []string{"add server b/s3 127.0.0.1:3"}, violationServers},
		{"another certificate", []string{"set ssl cert x.pem <<\n" + string(certificate) + string(key), "commit ssl cert x.pem"}, violationCertificates},
		{"an open transaction", []string{"set ssl cert x.pem <<\n" + string(certificate) + string(key)}, violationCertificates},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			o := p.rich(tc.name)
			loaded := p.mustLoad(o)
			if state := p.state(true); state.InvariantViolation != "" {
				t.Fatalf("before anything was changed: %s", state.InvariantViolation)
			}
			p.byHand(tc.commands...)
			state := p.state(true)
			if state.InvariantViolation != tc.invariant {
				t.Errorf("violation %q, want %q", state.InvariantViolation, tc.invariant)
			}
			if got := p.state(false).InvariantViolation; got != tc.invariant {
				t.Errorf("violation %q when read again", got)
			}
			want := api.OutcomeReload
			if tc.invariant == "" {
				want = api.OutcomeNoop
			}
			if result := p.apply(o); result.Mode != want || result.AppliedPlanID != loaded.AppliedPlanID {
				t.Errorf("the same output ended as %s, want %s", result.Mode, want)
			}
			if state := p.state(true); state.InvariantViolation != "" {
				t.Errorf("after the same output again: %s", state.InvariantViolation)
			}
		})
	}
}

// TestP15LargeMap: a map far larger than one answer may be is compared whole.
func TestP15LargeMap(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	rows := strings.Builder{}
	for i := range 200_000 {
		fmt.Fprintf(&rows, "host-%06d.example value-%d\n", i, i)
	}
	o := p.rich("large").with("maps/hosts.map", rows.String())
	p.mustLoad(o)
	if state := p.state(true); state.InvariantViolation != "" {
		t.Errorf("a large map: %s", state.InvariantViolation)
	}
	p.byHand("set map maps/hosts.map host-199999.example x")
	if state := p.state(true); state.InvariantViolation != violationMaps {
		t.Errorf("its last row changed: %q", state.InvariantViolation)
	}
}

// TestP15RandomSteps: after every step of a random sequence the verified state
// is what was done, drift included.
func TestP15RandomSteps(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	current := p.rich("start")
	p.mustLoad(current)
	steps := oftenUnlessFull(100, 15)
	for step := range steps {
		drift := ""
		what := random.IntN(6)
		switch what {
		case 0:
			current = p.rich(fmt.Sprint("step ", step)).with("maps/hosts.map", fmt.Sprintf("a %d\na %d\nb x y\n", step, random.IntN(9)))
			p.mustLoad(current)
		case 1:
			if result := p.apply(output{api.ConfigPath: current[api.ConfigPath] + "    nonsense\n"}); result.Mode != api.OutcomeRejected {
				t.Fatalf("step %d: nonsense ended as %s", step, result.Mode)
			}
		case 2:
			p.stop()
			p.startAgent()
		case 3:
			must(t, syscall.Kill(int(p.state(true).HAProxy.WorkerPID), syscall.SIGKILL))
			_ = p.haproxy.Wait()
			p.haproxy = nil
			p.startHAProxy()
			eventually(t, "a restarted worker", func() bool { return p.served() != "" && p.state(true).WorkerStatus == api.WorkerOwned })
		case 4:
			p.byHand("add map maps/hosts.map by-hand x")
			drift = violationMaps
		case 5:
			p.byHand("set server b/s1 weight 3")
			drift = violationServers
		}
		state := p.state(true)
		if want := current.request(api.Token{}).Manifest.PlanID; state.RunningPlanID != want || state.InvariantViolation != drift || state.Phase != api.PhaseConfigured {
			t.Fatalf("step %d (%d): running %s, want %s; violation %q, want %q", step, what, state.RunningPlanID, want, state.InvariantViolation, drift)
		}
		if drift != "" {
			p.mustLoad(current)
		}
		if diff := cmp.Diff("", p.state(true).InvariantViolation); diff != "" {
			t.Fatalf("step %d (%d) did not heal:\n%s", step, what, diff)
		}
	}
}

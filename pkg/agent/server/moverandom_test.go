package server

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

// planned is an output with the plan that a renderer would have made of it.
type planned struct {
	answer  string
	rows    []plan.MapEntry
	servers []plan.Server
}

func (s planned) clone() planned {
	s.rows, s.servers = slices.Clone(s.rows), slices.Clone(s.servers)
	return s
}

// output and plan of one state.
func (s planned) render(p *pod) (output, *plan.Plan) {
	o := p.output(s.answer)
	core := o[api.ConfigPath] + "    http-request deny if { path,map(m.map) -m found }\n    use_backend b if { path /b }\n"
	section := "backend b\n    balance roundrobin\n"
	for _, server := range s.servers {
		section += fmt.Sprintf("    server %s %s:%d", server.Name, server.Address, server.Port)
		if server.Weight != nil {
			section += fmt.Sprintf(" weight %d", *server.Weight)
		}
		if server.Disabled {
			section += " disabled"
		}
		section += "\n"
	}
	var file strings.Builder
	for _, row := range s.rows {
		file.WriteString(row.Key + " " + row.Value + "\n")
	}
	o = o.with(api.ConfigPath, core+section).with("m.map", file.String())
	made := &plan.Plan{
		SchemaVersion: plan.SchemaVersion,
		Sections: []plan.Section{
			{Kind: plan.SectionCore, TextDigest: plan.DigestString(core), Length: int64(len(core))},
			{Kind: plan.SectionBackend, Name: "b", TextDigest: plan.DigestString(section), Length: int64(len(section))},
		},
		Backends: map[string]plan.Backend{"b": {Name: "b", Balance: "roundrobin", Shape: plan.ShapeDynamic, Servers: s.servers, TextDigest: plan.DigestString(section)}},
		Maps:     map[string]plan.Map{"m.map": {Path: "m.map", Ordered: true, Entries: plan.MapEntries([]byte(file.String()))}},
	}
	for path, content := range o {
		made.Files = append(made.Files, plan.File{Path: path, Kind: kindOf(path), Digest: plan.DigestString(content), Size: int64(len(content))})
	}
	return o, made
}

// change makes one of the changes that need no reload.
func (s planned) change(random *rand.Rand) planned {
	next := s.clone()
	words := []string{"a", "b;c", `d\e`, "f#g", "größe", strings.Repeat("k", 300), `"q'`, "h"}
	word := func() string { return words[random.IntN(len(words))] }
	at := random.IntN(len(next.servers))
	switch random.IntN(7) {
	case 0:
		next.rows = append(next.rows, plan.MapEntry{Key: word(), Value: []string{"", word(), word() + "  " + word()}[random.IntN(3)]})
	case 1:
		if len(next.rows) > 0 {
			next.rows[random.IntN(len(next.rows))].Value = word() + " x"
		}
	case 2:
		if len(next.rows) > 0 {
			i := random.IntN(len(next.rows))
			next.rows = slices.Delete(next.rows, i, i+1)
		}
	case 3:
		next.servers[at].Address, next.servers[at].Port = fmt.Sprintf("127.0.0.%d", 1+random.IntN(9)), 1+random.Int64N(9)
	case 4:
		next.servers[at].Weight = []*int64{nil, new(int64(0)), new(int64(100))}[random.IntN(3)]
	case 5:
		next.servers[at].Disabled = !next.servers[at].Disabled
	case 6:
		if len(next.servers) > 2 {
			next.servers = slices.Delete(next.servers, at, at+1)
			break
		}
		for i := 0; ; i++ {
			name := fmt.Sprint("s", i)
			if !slices.ContainsFunc(next.servers, func(s plan.Server) bool { return s.Name == name }) {
				next.servers = append(next.servers, plan.Server{Name: name, Address: "127.0.0.1", Port: 5, Disabled: random.IntN(2) == 0})
				break
			}
		}
	}
	return next
}

// workerRows are the rows of the map as the worker has them.
func (p *pod) workerRows() (rows []plan.MapEntry) {
	p.t.Helper()
	answer, err := ask(p.t.Context(), p.layout.workerSocket(), "show map m.map")
	must(p.t, err)
	for line := range strings.SplitSeq(strings.TrimSpace(answer), "\n") {
		if _, line, ok := strings.Cut(line, " "); ok {
			key, value, _ := strings.Cut(line, " ")
			rows = append(rows, plan.MapEntry{Key: key, Value: value})
		}
	}
	return rows
}

// TestP15RandomOperations: operations that were composed from the plans, between
// reloads, restarts, kills, refusals and changes by hand. After every step the
// rows of worker, file and plan are the same list, and the worker changed only
// where it had to.
func TestP15RandomOperations(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	current := planned{answer: "start", servers: []plan.Server{{Name: "s0", Address: "127.0.0.1", Port: 1}, {Name: "s1", Address: "127.0.0.1", Port: 2}}}
	loaded, _ := current.render(p)
	p.mustLoad(loaded)
	counts := map[string]int{}
	for step := range oftenUnlessFull(500, 40) {
		next, drift, want := current, "", api.Outcome("")
		before := p.state(true)
		switch what := random.IntN(13); what {
		case 0:
			next.answer = fmt.Sprint("step ", step)
			want = api.OutcomeReload
		case 1:
			if result := p.apply(p.output("x").with("haproxy.cfg", "nonsense\n")); result.Mode != api.OutcomeRejected {
				t.Fatalf("step %d: nonsense ended as %s", step, result.Mode)
			}
		case 2:
			p.stop()
			p.startAgent()
		case 3:
			must(t, syscall.Kill(int(before.HAProxy.WorkerPID), syscall.SIGKILL))
			_ = p.haproxy.Wait()
			p.haproxy = nil
			p.startHAProxy()
			eventually(t, "a restarted worker", func() bool {
				s := p.state(true)
				return s.WorkerStatus == api.WorkerOwned && s.HAProxy != before.HAProxy
			})
		case 4:
			p.byHand([]string{"add map m.map by-hand x", "set server b/" + current.servers[0].Name + " weight 77"}[random.IntN(2)])
			if drift = p.state(true).InvariantViolation; drift == "" {
				t.Fatalf("step %d: a change by hand was overlooked", step)
			}
			next, want = current.change(random), api.OutcomeReload
		default:
			next, want = current.change(random), api.OutcomeRuntime
		}
		was, from := current.render(p)
		o, to := next.render(p)
		if cmp.Equal(was, o) && drift == "" {
			want = ""
		}
		if want != "" {
			ops, ok := plan.Compose(from, to)
			if ok != (want == api.OutcomeRuntime || drift != "") {
				t.Fatalf("step %d: covered %t, want %s", step, ok, want)
			}
			request := p.request(o)
			request.Manifest.InPlaceOps, request.Manifest.Ops = ok, ops
			result, err := p.client.Apply(t.Context(), p.target, request)
			must(t, err)
			if result.Mode != want || (want == api.OutcomeRuntime && result.HAProxy != before.HAProxy) {
				told, _ := json.Marshal(result)
				t.Fatalf("step %d: ended as %s, want %s: %s", step, result.Mode, want, told)
			}
			current = next
		}
		counts[string(want)]++
		o, made := current.render(p)
		state := p.state(true)
		if id := o.request(api.Token{}).Manifest.PlanID; state.AppliedPlanID != id || state.InvariantViolation != "" || (state.RunningPlanID != id && state.WorkerOpsPlanID != id) {
			t.Fatalf("step %d: want plan %s, is %+v, violation %q", step, id, state.Plans, state.InvariantViolation)
		}
		if diff := cmp.Diff(made.Maps["m.map"].Entries, p.workerRows(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("step %d: rows of the worker (-plan +worker):\n%s", step, diff)
		}
	}
	t.Logf("ended as %v", counts)
}

package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

// move applies an output with the operations that are meant to lead to it.
func (p *pod) move(o output, ops ...plan.Operation) *api.Result {
	p.t.Helper()
	return p.moveAfter(func() {}, o, ops...)
}

// moveAfter has something happen after the pod was read.
func (p *pod) moveAfter(meanwhile func(), o output, ops ...plan.Operation) *api.Result {
	p.t.Helper()
	request := p.request(o)
	request.Manifest.InPlaceOps, request.Manifest.Ops = true, ops
	meanwhile()
	result, err := p.client.Apply(p.t.Context(), p.target, request)
	must(p.t, err)
	return result
}

// mustMove requires that the worker stayed and is what the output says.
func (p *pod) mustMove(o output, ops ...plan.Operation) *api.Result {
	p.t.Helper()
	before := p.state(false)
	result := p.move(o, ops...)
	if !result.OK || result.Mode != api.OutcomeRuntime || result.HAProxy != before.HAProxy || len(result.OpResults) != len(ops) {
		p.t.Fatalf("ended as %s beside %+v\n%s", result.Mode, result.OpResults, p.log)
	}
	state := p.state(true)
	changedTo := result.PlanID
	if before.RunningPlanID == changedTo {
		changedTo = "" // back at what the worker was loaded with
	}
	if state.InvariantViolation != "" || state.AppliedPlanID != result.PlanID || state.WorkerOpsPlanID != changedTo ||
		state.RunningPlanID != before.RunningPlanID || state.Plans != result.Plans {
		p.t.Fatalf("afterwards: %+v", state)
	}
	return result
}

// mustFallBack requires that the same apply ended as a reload of the output.
func (p *pod) mustFallBack(meanwhile func(), o output, ops ...plan.Operation) *api.Result {
	p.t.Helper()
	result := p.moveAfter(meanwhile, o, ops...)
	if !result.OK || result.Mode != api.OutcomeReload {
		p.t.Fatalf("ended as %s beside %+v: %+v\n%s", result.Mode, result.OpResults, result.Error, p.log)
	}
	p.mustRun(o, "after a reload in place of operations")
	return result
}

// mustRun requires a pod that was loaded with exactly the output.
func (p *pod) mustRun(o output, what string) {
	p.t.Helper()
	id := o.request(api.Token{}).Manifest.PlanID
	if s := p.state(true); s.RunningPlanID != id || s.AppliedPlanID != id || s.WorkerOpsPlanID != "" || s.InvariantViolation != "" {
		p.t.Fatalf("%s: %+v", what, s)
	}
	if open, err := ask(p.t.Context(), p.layout.workerSocket(), "show ssl cert"); err != nil || strings.Contains(open, "\n*") {
		p.t.Fatalf("%s: a transaction is open: %q, %v", what, open, err)
	}
}

// edit replaces text in one file, which must hold it.
func (o output) edit(t *testing.T, path, from, to string) output {
	t.Helper()
	if !strings.Contains(o[path], from) {
		t.Fatalf("%s does not hold %q", path, from)
	}
	return o.with(path, strings.Replace(o[path], from, to, 1))
}

const s1Line, s2Line = "    server s1 127.0.0.1:1 weight 10\n", "    server s2 127.0.0.1:2 disabled\n"

// TestOperations: each kind brings the worker to the output without a reload,
// and what it did is what a worker loaded from the files has.
func TestOperations(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	certificate, key := p.certs.pair(t, "next.example")
	start := p.rich("start")
	config := func(from, to string) func(output) output {
		return func(o output) output { return o.edit(t, api.ConfigPath, from, to) }
	}
	hosts := func(content string) func(output) output {
		return func(o output) output { return o.with("maps/hosts.map", content) }
	}
	server := func(kind plan.OperationKind) plan.Operation {
		return plan.Operation{Kind: kind, Backend: "b", Server: "s1"}
	}
	address, weight, state, added, gone := server(plan.OpServerAddress), server(plan.OpServerWeight), server(plan.OpServerState), server(plan.OpServerAdd), server(plan.OpServerDelete)
	address.Address, address.Port = "127.0.0.9", 99
	weight.Weight = new(int64(0))
	state.Server = "s2"
	added.Server, added.Address, added.Port, added.Weight = "s3", "::1", 3, new(int64(7))
	row := func(kind plan.OperationKind, key, value string) plan.Operation {
		return plan.Operation{Kind: kind, Path: "maps/hosts.map", Key: key, Value: value}
	}
	rows := "# hosts\n\na.example  one\nb.example two words \na.example again\n"
	many := strings.Builder{}
	for i := range 5000 {
		fmt.Fprintf(&many, "host-%d.example   value \\ %d;#\n", i, i)
	}
	tests := []struct {
		name   string
		change func(output) output
		ops    []plan.Operation
	}{
		{"another address", config("127.0.0.1:1 weight", "127.0.0.9:99 weight"), []plan.Operation{address}},
		{"another weight", config("weight 10", "weight 0"), []plan.Operation{weight}},
		{"out of maintenance", config(" disabled", ""), []plan.Operation{state}},
		{"a new server", config(s1Line, s1Line+"    server s3 [::1]:3 weight 7\n"), []plan.Operation{added}},
		{"a server less", config(s1Line, ""), []plan.Operation{gone}},
		{"a comment", config(s1Line, "    # about s1\n"+s1Line), nil},
		{"a row more", hosts(rows + "c.example x y\n"), []plan.Operation{row(plan.OpMapAdd, "c.example", "x y")}},
		{"a row without a value", hosts(rows + "c.example\n"), []plan.Operation{row(plan.OpMapAdd, "c.example", "")}},
		{"another value", hosts(strings.Replace(rows, "two words", "3  4", 1)), []plan.Operation{row(plan.OpMapSet, "b.example", "3  4")}},
		{"a row less", hosts(strings.Replace(rows, "b.example two words \n", "", 1)), []plan.Operation{row(plan.OpMapDelete, "b.example", "")}},
		{"other rows", hosts(many.String()), []plan.Operation{{Kind: plan.OpMapReplace, Path: "maps/hosts.map"}}},
		{"no rows", hosts("# none\n"), []plan.Operation{{Kind: plan.OpMapReplace, Path: "maps/hosts.map"}}},
		{"another certificate", func(o output) output { return o.with("x.pem", string(certificate)+string(key)) }, []plan.Operation{{Kind: plan.OpCertReplace, Path: "x.pem"}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p.t = t
			p.apply(start)
			p.mustRun(start, "before")
			next := tc.change(start)
			p.mustMove(next, tc.ops...)
			if result := p.apply(next); result.Mode != api.OutcomeNoop {
				t.Errorf("the same output again ended as %s", result.Mode)
			}
		})
	}
}

// TestP15Rows: keys and values of any kind get into the worker as they are.
func TestP15Rows(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	current := p.rich("rows").with("maps/hosts.map", "first 1\n")
	p.mustLoad(current)
	for _, text := range []string{
		";", `\`, `a\`, `\;`, `a;b`, "a#b", `"`, `'`, "größe", "日本", "a<<b", "@1", "$x", "%[x]", "{}", "!", "?", "~", "|&", "-i", strings.Repeat("k", 300), strings.Repeat("ü", 1500),
	} {
		op := plan.Operation{Kind: plan.OpMapAdd, Path: "maps/hosts.map", Key: text, Value: text}
		current = current.with("maps/hosts.map", current["maps/hosts.map"]+text+" "+text+"\n")
		p.mustMove(current, op)
		values := []string{text + " " + text, text + "\t;" + text, "# no comment", "<<"}
		for _, value := range append(values[:oftenUnlessFull(len(values), 1)], "x") {
			if len(text)+len(value) > api.MaxLineBytes/2 {
				continue
			}
			before := current["maps/hosts.map"]
			next := current.with("maps/hosts.map", strings.TrimSuffix(before, before[strings.LastIndex(before[:len(before)-1], "\n")+1:])+text+" "+value+"\n")
			op.Kind, op.Value = plan.OpMapSet, value
			p.mustMove(next, op)
			current = next
		}
		rest := strings.TrimSuffix(current["maps/hosts.map"], text+" x\n")
		op.Kind, op.Value = plan.OpMapDelete, ""
		current = current.with("maps/hosts.map", rest)
		p.mustMove(current, op)
	}
}

// TestOperationsFallBack: whatever is not as expected ends as a reload of the
// output in the same apply, and nothing of the attempt is left.
func TestOperationsFallBack(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	start := p.rich("start")
	set := plan.Operation{Kind: plan.OpMapSet, Path: "maps/hosts.map", Key: "b.example", Value: "x"}
	next := start.edit(t, "maps/hosts.map", "two words", "x")
	certificate, key := p.certs.pair(t, "next.example")
	renewed := start.with("x.pem", string(certificate)+string(key))
	renew := plan.Operation{Kind: plan.OpCertReplace, Path: "x.pem"}
	withDefaults := start.edit(t, api.ConfigPath, "    timeout connect 1s\n", "    timeout connect 1s\n    default-server check\n")
	add := plan.Operation{Kind: plan.OpServerAdd, Backend: "b", Server: "s3", Address: "127.0.0.1", Port: 3}
	s3 := func(o output) output {
		return o.edit(t, api.ConfigPath, s1Line, s1Line+"    server s3 127.0.0.1:3\n")
	}
	secondName := start.edit(t, api.ConfigPath, "path,map(maps/hosts.map)", "path,map(./maps/hosts.map),map(maps/hosts.map)")
	tests := []struct {
		name      string
		from      output
		meanwhile func() // after the pod was read
		to        output
		ops       []plan.Operation
		tried     int // at most: drift is mostly found before anything is tried
	}{
		{"drift elsewhere in the same map", start, func() { p.byHand("add map maps/hosts.map by-hand x") }, next, []plan.Operation{set}, 1},
		{"drift that is known", start, func() { p.byHand("set server b/s1 weight 3"); p.state(true) }, next, []plan.Operation{set}, 0},
		{"a server in maintenance by hand", start, func() { p.byHand("set server b/s1 state maint") }, next, []plan.Operation{set}, 1},
		{"a server that changed and no operation names", start, nil, next.edit(t, api.ConfigPath, "127.0.0.1:2 disabled", "127.0.0.1:5 disabled"), []plan.Operation{set}, 1},
		{"operations that do too little", start, nil, next, nil, 0},
		{"an operation that is refused", start, nil, next, []plan.Operation{set, {Kind: plan.OpMapSet, Path: "maps/hosts.map", Key: "not-there", Value: "x"}, set}, 2},
		{"a server that is not there", start, nil, next, []plan.Operation{{Kind: plan.OpServerWeight, Backend: "b", Server: "s9", Weight: new(int64(1))}}, 1},
		{"a server that is there already", start, nil, s3(start), []plan.Operation{{Kind: plan.OpServerAdd, Backend: "b", Server: "s1", Address: "127.0.0.1", Port: 3}}, 1},
		{"defaults that an added server would miss", withDefaults, nil, s3(withDefaults), []plan.Operation{add}, 1},
		{"a map under two names", secondName, nil, secondName.edit(t, "maps/hosts.map", "two words", "x"), []plan.Operation{set}, 1},
		{"a map that is not loaded", start.with("a.map", "k v\n"), nil, start.with("a.map", "k x\n"), []plan.Operation{{Kind: plan.OpMapSet, Path: "a.map", Key: "k", Value: "x"}}, 1},
		{"a transaction of somebody else", start, func() { p.byHand("set ssl cert x.pem <<\n" + string(certificate) + string(key)) }, renewed, []plan.Operation{renew}, 1},
		{"a certificate with a file beside it", start.with("x.pem.note", "a"), nil, renewed.with("x.pem.note", "a"), []plan.Operation{renew}, 1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p.t = t
			p.apply(tc.from)
			p.mustRun(tc.from, "before")
			if tc.meanwhile == nil {
				tc.meanwhile = func() {}
			}
			if result := p.mustFallBack(tc.meanwhile, tc.to, tc.ops...); len(result.OpResults) > tc.tried {
				t.Errorf("%d operations were tried, want at most %d: %+v", len(result.OpResults), tc.tried, result.OpResults)
			}
		})
	}
}

package api

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/pkg/plan"
)

func withOps(ops ...plan.Operation) Manifest {
	m := validManifest()
	m.ExpectedPrevPlanID, m.ExpectedPrevPlanProof = m.PlanID, m.PlanProof
	m.Files = append(m.Files, Declare(FileSpec{Path: "a.map", Kind: KindMap}, nil), Declare(FileSpec{Path: "a.pem", Kind: KindCert}, nil),
		Declare(FileSpec{Path: "a.txt", Kind: KindCRTList}, nil), Declare(FileSpec{Path: "ca.pem", Kind: KindCA}, nil))
	m.InPlaceOps, m.Ops = true, ops
	return m
}

// everyOp is one valid operation of each kind.
func everyOp() []plan.Operation {
	weight := new(int64(0))
	return []plan.Operation{
		{Kind: plan.OpServerAddress, Backend: "b", Server: "s", Address: "::1", Port: 1},
		{Kind: plan.OpServerWeight, Backend: "b", Server: "s", Weight: weight},
		{Kind: plan.OpServerState, Backend: "b", Server: "s", Disabled: true},
		{Kind: plan.OpServerAdd, Backend: "b", Server: "s", Address: "10.0.0.1", Port: 65535, Weight: weight},
		{Kind: plan.OpServerDelete, Backend: "b", Server: "s"},
		{Kind: plan.OpMapSet, Path: "a.map", Key: `k;\"ü`, Value: "v\tw  x;#"},
		{Kind: plan.OpMapAdd, Path: "a.map", Key: "k"},
		{Kind: plan.OpMapDelete, Path: "a.map", Key: "k"},
		{Kind: plan.OpMapReplace, Path: "a.map"},
		{Kind: plan.OpCertReplace, Path: "a.pem"},
		{Kind: plan.OpCertAdd, Path: "a.pem"},
		{Kind: plan.OpCertDelete, Path: "gone.pem"},
		{Kind: plan.OpCRTListAdd, Path: "a.txt", Key: "a.pem", Value: "[alpn h2,http/1.1 allow-0rtt] *.example !x.example"},
		{Kind: plan.OpCRTListDelete, Path: "a.txt", Key: "gone.pem"},
		{Kind: plan.OpCAReplace, Path: "ca.pem"},
	}
}

func TestValidateOps(t *testing.T) {
	every := everyOp()
	if len(every) != len(plan.OperationKinds()) {
		t.Fatalf("%d kinds are known, %d are tried", len(plan.OperationKinds()), len(every))
	}
	m := withOps(every...)
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var back Manifest
	if err := json.Unmarshal(raw, &back); err != nil || back.Validate() != nil {
		t.Errorf("one of each kind, sent and read: %v, %v", err, back.Validate())
	}
	// Each kind refuses each member that belongs to another.
	for _, op := range every {
		for name, change := range map[string]func(*plan.Operation){
			"backend": func(o *plan.Operation) { o.Backend += "/x" }, "server": func(o *plan.Operation) { o.Server += ";x" },
			"address": func(o *plan.Operation) { o.Address += "%eth0" }, "port": func(o *plan.Operation) { o.Port += 65535 },
			"weight": func(o *plan.Operation) { o.Weight = new(int64(257)) }, "path": func(o *plan.Operation) { o.Path += "x" },
			"key": func(o *plan.Operation) { o.Key += "\n" }, "value": func(o *plan.Operation) { o.Value += "\nx" },
		} {
			changed := op
			if change(&changed); name == "path" && op.Kind == plan.OpCertDelete {
				changed.Path = "a.pem" // any other may be one that goes
			}
			refused(t, withOps(changed), "ops[0]", string(op.Kind)+" with another "+name)
		}
	}
}

func refused(t *testing.T, m Manifest, field, what string) {
	t.Helper()
	var wrong *InvalidError
	if err := m.Validate(); !errors.As(err, &wrong) || wrong.Field != field {
		t.Errorf("%s: got %v, want a refusal of %s", what, err, field)
	}
}

func TestValidateOpsRefuses(t *testing.T) {
	row := func(kind plan.OperationKind, key, value string) plan.Operation {
		return plan.Operation{Kind: kind, Path: "a.map", Key: key, Value: value}
	}
	tests := []struct {
		name  string
		field string
		m     Manifest
	}{
		{"an unknown kind", "ops[0]", withOps(plan.Operation{Kind: "backend_add", Backend: "b"})},
		{"no kind", "ops[0]", withOps(plan.Operation{})},
		{"a host name", "ops[0]", withOps(plan.Operation{Kind: plan.OpServerAddress, Backend: "b", Server: "s", Address: "host", Port: 1})},
		{"no weight", "ops[0]", withOps(plan.Operation{Kind: plan.OpServerWeight, Backend: "b", Server: "s"})},
		{"a map that is a certificate", "ops[0]", withOps(plan.Operation{Kind: plan.OpMapReplace, Path: "a.pem"})},
		{"a certificate that is the configuration", "ops[0]", withOps(plan.Operation{Kind: plan.OpCertReplace, Path: ConfigPath})},
		{"a key of two words", "ops[0]", withOps(row(plan.OpMapAdd, "a b", ""))},
		{"a key that is a comment", "ops[0]", withOps(row(plan.OpMapAdd, "#1", ""))},
		{"a value set to nothing", "ops[0]", withOps(row(plan.OpMapSet, "a", ""))},
		{"a value with space around it", "ops[0]", withOps(row(plan.OpMapSet, "a", " b"))},
		{"a value of another encoding", "ops[0]", withOps(row(plan.OpMapSet, "a", "\xff"))},
		{"a row that fits no line", "ops[0]", withOps(row(plan.OpMapAdd, "a", strings.Repeat("x", MaxLineBytes/2)))},
		{"a certificate of authorities", "ops[0]", withOps(plan.Operation{Kind: plan.OpCertAdd, Path: "ca.pem"})},
		{"a certificate that leaves the folder", "ops[0]", withOps(plan.Operation{Kind: plan.OpCertDelete, Path: "../x.pem"})},
		{"an entry of a certificate that is not there", "ops[0]", withOps(plan.Operation{Kind: plan.OpCRTListAdd, Path: "a.txt", Key: "b.pem"})},
		{"an entry with a comment", "ops[0]", withOps(plan.Operation{Kind: plan.OpCRTListAdd, Path: "a.txt", Key: "a.pem", Value: "#x"})},
		{"an entry with two lists of options", "ops[0]", withOps(plan.Operation{Kind: plan.OpCRTListAdd, Path: "a.txt", Key: "a.pem", Value: "[alpn h2] [alpn h2]"})},
		{"an entry of two lines", "ops[0]", withOps(plan.Operation{Kind: plan.OpCRTListAdd, Path: "a.txt", Key: "a.pem", Value: "x\nquit"})},
		{"an entry that ends in a space", "ops[0]", withOps(plan.Operation{Kind: plan.OpCRTListAdd, Path: "a.txt", Key: "a.pem", Value: "x "})},
		{"an entry that fits no line", "ops[0]", withOps(plan.Operation{Kind: plan.OpCRTListDelete, Path: "a.txt", Key: "a.pem", Value: strings.Repeat("x", MaxLineBytes)})},
		{"too many", "ops", withOps(make([]plan.Operation, MaxOps+1)...)},
	}
	for _, tc := range tests {
		refused(t, tc.m, tc.field, tc.name)
	}
	m := withOps(everyOp()...)
	m.InPlaceOps = false
	refused(t, m, "ops", "operations that are not said to suffice")
	m = withOps()
	m.Mode = ModeReload
	refused(t, m, "in_place_ops", "a reload in place")
	m.Mode, m.Files = ModeRevertLKG, nil
	refused(t, m, "in_place_ops", "a revert in place")
	m = withOps()
	m.ExpectedPrevPlanID, m.ExpectedPrevPlanProof = "", ""
	refused(t, m, "in_place_ops", "no plan to start from")
	m = withOps()
	if err := m.Validate(); err != nil {
		t.Errorf("nothing to do in place: %v", err)
	}
}

func TestStateCanDo(t *testing.T) {
	ops := everyOp()[:2]
	s := State{Features: []string{FeatureInPlaceOps}, AgentOps: []string{string(ops[0].Kind)}}
	if !s.CanDo(nil) || !s.CanDo(ops[:1]) || s.CanDo(ops) {
		t.Error("kinds were not compared")
	}
	s.Features = nil
	if s.CanDo(nil) {
		t.Error("an agent that knows nothing of it was trusted")
	}
}

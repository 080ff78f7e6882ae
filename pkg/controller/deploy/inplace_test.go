package deploy

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

// mapped is a candidate whose outputs differ in the rows of a map.
func mapped(t *testing.T, sequence uint64, config, rows string) *Candidate {
	t.Helper()
	output := candidate(t, sequence, config).Output
	p := output.Plan
	p.Sections = []plan.Section{{Kind: plan.SectionCore, TextDigest: plan.DigestString(config), Length: int64(len(config))}}
	p.Maps = map[string]plan.Map{"maps/a.map": {Path: "maps/a.map", Ordered: true, Entries: plan.MapEntries([]byte(rows))}}
	output.Artifacts[0].Content = []byte(rows)
	p.Files[1].Digest, p.Files[1].Size = plan.DigestString(rows), int64(len(rows))
	var err error
	if p.ID, err = p.ComputeID(); err != nil {
		t.Fatal(err)
	}
	c, err := Prepare(output, sequence, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// canDo has the agent say which operations it has.
func (a *agent) canDo(kinds ...plan.OperationKind) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Features = []string{api.FeatureInPlaceOps}
	for _, kind := range kinds {
		a.state.AgentOps = append(a.state.AgentOps, string(kind))
	}
}

// given are the operations of each apply in place.
func (a *agent) given() (all [][]plan.Operation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.inPlace {
		all = append(all, m.Ops)
	}
	return all
}

var rowSet = []plan.Operation{{Kind: plan.OpMapSet, Path: "maps/a.map", Key: "a", Value: "c"}}

func TestOperationsAreComposedForPodsThatHaveThem(t *testing.T) {
	all := plan.OperationKinds()
	tests := []struct {
		name  string
		kinds []plan.OperationKind
		next  *Candidate
		alter func(*agent)
		want  [][]plan.Operation
		entry string
	}{
		{name: "a row of a map", kinds: all, next: mapped(t, 2, "one", "a c\n"), want: [][]plan.Operation{rowSet}, entry: "runtime receipt"},
		{name: "a row, and an agent that reloads all the same", kinds: all, next: mapped(t, 2, "one", "a c\n"),
			alter: func(a *agent) { a.reloads = true }, want: [][]plan.Operation{rowSet}, entry: "reload receipt"},
		{name: "a row, and an agent that only has others", kinds: []plan.OperationKind{plan.OpMapAdd}, next: mapped(t, 2, "one", "a c\n"), entry: "reload receipt"},
		{name: "a row, and an agent that knows of none", next: mapped(t, 2, "one", "a c\n"),
			alter: func(a *agent) { a.state.Features = nil }, entry: "reload receipt"},
		{name: "a row and more", kinds: all, next: mapped(t, 2, "two", "a c\n"), entry: "reload receipt"},
		{name: "a row, and a worker that drifted", kinds: all, next: mapped(t, 2, "one", "a c\n"),
			alter: func(a *agent) { a.state.InvariantViolation = "worker_maps_are_the_files" }, entry: "reload receipt"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f := newFleet("a")
			a := f.agent("a")
			a.canDo(tc.kinds...)
			inTerm(t, f, func(t *testing.T, d *Deployer) {
				d.Dispatch(mapped(t, 1, "one", "a b\n"))
				synctest.Wait()
				a.mu.Lock()
				if tc.alter != nil {
					tc.alter(a)
				}
				a.mu.Unlock()
				d.Dispatch(tc.next)
				pass(DefaultMinInterval + time.Second)
				if diff := cmp.Diff(tc.want, a.given()); diff != "" {
					t.Errorf("operations (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(map[string]string{"a": tc.entry}, f.entries()); diff != "" {
					t.Errorf("reports (-want +got):\n%s", diff)
				}
				if entry := f.lastReport().Entry; !entry.Confirms(tc.next.Checksum, tc.next.Output.Plan.ID) {
					t.Errorf("the entry confirms nothing: %+v", entry)
				}
			})
		})
	}
}

// TestAPlanOfAnEarlierTermIsReadFromThePod: a new leader rendered nothing before,
// and reloads no fleet for it. Nor does it for a pod that was changed in place.
func TestAPlanOfAnEarlierTermIsReadFromThePod(t *testing.T) {
	f := newFleet("a")
	a := f.agent("a")
	a.canDo(plan.OperationKinds()...)
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		d.Dispatch(mapped(t, 1, "one", "a b\n"))
		synctest.Wait()
	})
	f.epoch = 8
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		d.Dispatch(mapped(t, 1, "one", "a c\n"))
		synctest.Wait()
		if diff := cmp.Diff([][]plan.Operation{rowSet}, a.given()); diff != "" {
			t.Errorf("operations (-want +got):\n%s", diff)
		}
		applies := a.count()
		pass(DefaultDriftInterval + time.Second)
		if a.count() != applies {
			t.Error("a pod that was changed in place was served again")
		}
	})
	f.epoch = 9
	a.mu.Lock()
	a.state.AppliedPlan = []byte("another blob")
	a.mu.Unlock()
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		d.Dispatch(mapped(t, 1, "one", "a d\n"))
		synctest.Wait()
		if len(a.given()) != 1 {
			t.Error("operations were composed from a plan that is not the pod's")
		}
		if diff := cmp.Diff(map[string]string{"a": "reload receipt"}, f.entries()); diff != "" {
			t.Errorf("reports (-want +got):\n%s", diff)
		}
	})
}

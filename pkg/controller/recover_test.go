package controller

import (
	"sync"
	"testing"
)

func TestACheckpointIsMadeReadyOnceForAllPods(t *testing.T) {
	a := &recoveryAgents{}
	one, other := outputOf(t, version(1)), outputOf(t, version(2))
	first, err := a.prepared(one)
	if err != nil {
		t.Fatal(err)
	}
	if first.Output != one || first.Sequence != 0 {
		t.Errorf("prepared plan %s with sequence %d", first.Output.Plan.ID, first.Sequence)
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if again, err := a.prepared(one); err != nil || again != first {
				t.Errorf("made ready again, error %v", err)
			}
		})
	}
	wg.Wait()
	if next, err := a.prepared(other); err != nil || next.Output != other {
		t.Errorf("another checkpoint gave %v, error %v", next, err)
	}
}

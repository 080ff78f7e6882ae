package publish

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

// queued is a queue after a script of words: a1 acknowledges a in render 1, +a5
// accepts a in render 5, !a makes a the intent, =a stores what is wanted of a,
// and -a refuses it.
func queued(script string) (q *receipts, dropped int) {
	q = &receipts{}
	key := func(name string) outputKey { return outputKey{planID: "plan-" + name, checksum: name} }
	for word := range strings.FieldsSeq(script) {
		var name string
		var sequence uint64
		if _, err := fmt.Sscanf(strings.TrimLeft(word, "+!=-"), "%1s%d", &name, &sequence); err != nil {
			name = strings.TrimLeft(word, "+!=-")
		}
		switch word[0] {
		case '+':
			q.accepted(key(name), sequence)
		case '!':
			q.intended = key(name)
		case '-':
			q.refuse(key(name))
		case '=':
			for _, r := range q.wanted() {
				if r.key == key(name) {
					q.promoted(r, name, []checkpoint.Pointer{{Name: name}})
				}
			}
		default:
			dropped += q.put(receipt{key: key(name), sequence: sequence})
		}
	}
	return q, dropped
}

func TestQueueOfReceipts(t *testing.T) {
	t.Parallel()
	many := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "%c%d ", 'a'+i, i)
		}
		return b.String()
	}
	tests := []struct {
		name, script, wanted string
		fresh                bool
		dropped              int
	}{
		{name: "nothing"},
		{name: "the newest by render order, whatever comes last", script: "b2 a1", wanted: "b2", fresh: true},
		{name: "receipts of one output are one", script: "a1 a1 a1", wanted: "a1", fresh: true},
		{name: "what is stored is still looked after", script: "a1 =a", wanted: "a1"},
		{name: "another pod's receipt of what is stored changes nothing", script: "a1 =a a1", wanted: "a1"},
		{name: "a later render of what is in front changes nothing", script: "a1 =a a2", wanted: "a2"},
		{name: "a late receipt of an older output is left", script: "b2 =b a1", wanted: "b2"},
		{name: "unless the intent names it", script: "b2 =b !a a1", wanted: "a1 b2", fresh: true},
		{name: "an older one that was accepted again may be the intent", script: "a1 b2 =b +a3", wanted: "b2", fresh: true},
		{name: "and is wanted once it is", script: "a1 b2 =b +a3 !a", wanted: "a1 b2", fresh: true},
		{name: "one that was accepted again and superseded is not", script: "a1 b2 =b +a3 c4 =c", wanted: "c4"},
		{name: "an output that is acknowledged in a later render moves to the front", script: "a1 =a b2 =b a3", wanted: "a3", fresh: true},
		{name: "a refused one gives way", script: "a1 b2 -b", wanted: "a1", fresh: true},
		{name: "and is never asked for again", script: "a1 =a b2 -b b3", wanted: "a1"},
		{name: "a refused intent is not asked for", script: "a1 b2 !a -a", wanted: "b2", fresh: true},
		{name: "all refused", script: "a1 b2 -a -b"},
		{name: "sixteen fit", script: many(0, 15), wanted: "p15", fresh: true},
		{name: "the oldest is dropped", script: many(0, 17), wanted: "r17", fresh: true, dropped: 2},
		{name: "never the intent's", script: "!a " + many(0, 20), wanted: "a0 u20", fresh: true, dropped: 5},
		{name: "nor one that was accepted again", script: "a1 +a9 " + many(2, 10) + many(12, 18) + "!a", wanted: "a1 s18", fresh: true, dropped: 1},
		{name: "a late one may be dropped at once", script: many(5, 20) + "z1", wanted: "u20", fresh: true, dropped: 1},
		{name: "one that is stored is no loss", script: "a1 =a " + many(2, 17), wanted: "r17", fresh: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			q, dropped := queued(tc.script)
			var wanted []string
			for _, r := range q.wanted() {
				wanted = append(wanted, fmt.Sprintf("%s%d", r.key.checksum, r.sequence))
			}
			if diff := cmp.Diff(tc.wanted, strings.Join(wanted, " ")); diff != "" {
				t.Errorf("wanted (-want +got):\n%s", diff)
			}
			if q.fresh() != tc.fresh || dropped != tc.dropped {
				t.Errorf("fresh %v, dropped %d, want %v and %d", q.fresh(), dropped, tc.fresh, tc.dropped)
			}
			if len(q.queue) > maxReceipts {
				t.Errorf("%d receipts are queued", len(q.queue))
			}
		})
	}
}

// An acknowledgement may come while a checkpoint of another output is written.
func TestAnAcknowledgementDuringAPublicationStillMovesItsPointer(t *testing.T) {
	t.Parallel()
	q, _ := queued("a1 =a b2")
	b := q.wanted()[0]
	place := q.position([]checkpoint.Pointer{{Name: "a"}}, b.sequence)
	q.put(receipt{key: outputKey{"plan-a", "a"}, sequence: 3})
	q.promoted(b, "b", slices.Insert([]checkpoint.Pointer{{Name: "a"}}, place, checkpoint.Pointer{Name: "b"}))
	if wanted := q.wanted(); !q.fresh() || len(wanted) != 1 || wanted[0].key.checksum != "a" {
		t.Errorf("wanted %+v, fresh %v, want a to move to the front", wanted, q.fresh())
	}
}

func intends(o *checkpoint.Output) func(*fence) {
	return func(f *fence) { f.intent = fencing.Intent{PlanID: o.Plan.ID, Checksum: o.Checksum()} }
}

func valueOf(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	var written dto.Metric
	must(t, m.Write(&written))
	return written.GetCounter().GetValue() + written.GetGauge().GetValue()
}

// ADR-0033's acknowledgement reordering.
func TestALateReceiptIsStoredBehindTheNewestWhenTheIntentNamesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fence{}
		r := run(t, newAPI(t), f)
		defer r.stop()
		r.deploy(site(t, "b"), 2)
		synctest.Wait()
		a := site(t, "a")
		r.Deployed(a, 1, entryFor(a, "pod-2"))
		time.Sleep(time.Minute)
		synctest.Wait()
		wantPointers(t, r.api, "b")

		f.set(intends(a))
		r.Accepted(a, 3) // its pods are told to run it again
		time.Sleep(time.Minute)
		synctest.Wait()
		wantPointers(t, r.api, "b", "a")

		r.Deployed(a, 3, entryFor(a, "pod-2"))
		time.Sleep(time.Minute)
		synctest.Wait()
		wantPointers(t, r.api, "a", "b")
	})
}

func TestReceiptsSurviveBlockedRenderingButNotTheTerm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, intended := &fence{}, site(t, "intended")
		r := run(t, newAPI(t), f)
		f.set(intends(intended))
		r.Block()
		r.deploy(intended, 1)
		for i := range 20 {
			r.deploy(site(t, fmt.Sprint("other", i)), uint64(i+2))
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		wantPointers(t, r.api)
		if got := valueOf(t, r.metrics.DroppedReceipts); got != 5 {
			t.Errorf("%v receipts were dropped, want 5", got)
		}
		r.Unblock()
		time.Sleep(time.Minute)
		synctest.Wait()
		wantPointers(t, r.api, "other19", "intended")
		r.stop()

		next := run(t, r.api, f)
		defer next.stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		wantPointers(t, r.api, "other19", "intended")
	})
}

func TestFlushStoresTheNewestAndTheIntendedReceipt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fence{}
		r := run(t, newAPI(t), f)
		defer r.stop()
		r.deploy(site(t, "a"), 1)
		synctest.Wait()
		for i, version := range []string{"b", "c", "d"} {
			r.deploy(site(t, version), uint64(i+2))
		}
		f.set(intends(site(t, "b")))
		must(t, r.Flush(t.Context()))
		// The intended one is stored ahead of the newest, as it was rendered.
		wantPointers(t, r.api, "d", "b")
	})
}

func TestARefusedReceiptGivesWayToTheOneBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, newAPI(t), &fence{})
		defer r.stop()
		r.deploy(site(t, "a"), 1)
		synctest.Wait()
		e, err := encode(site(t, "c"), defaultThreshold)
		must(t, err)
		refused := checkpoint.CheckpointName("web", e.checksum, e.payload)
		tries := 0
		r.api.hooks(func(q request) error {
			if q.Verb == "create" && q.Name == refused {
				tries++
				return statusError(500, "rpc error: code = ResourceExhausted desc = trying to send message larger than max")
			}
			return nil
		}, nil)
		r.deploy(site(t, "b"), 2)
		r.deploy(site(t, "c"), 3)
		time.Sleep(time.Hour)
		synctest.Wait()
		wantPointers(t, r.api, "b", "a")
		r.deploy(site(t, "c"), 4)
		time.Sleep(time.Hour)
		if tries != 1 {
			t.Errorf("%d tries, want 1", tries)
		}
		if err := r.Flush(t.Context()); !errors.Is(err, ErrRefused) {
			t.Errorf("Flush() = %v, want ErrRefused", err)
		}
		wantPointers(t, r.api, "b", "a")
	})
}

// A newer apply without a saved checkpoint: the intent names what no receipt
// proves, so nothing is stored for it and nothing older takes its place.
func TestANewerApplyWithoutAReceiptStoresNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fence{}
		r := run(t, newAPI(t), f)
		defer r.stop()
		r.deploy(site(t, "a"), 1)
		time.Sleep(time.Minute)
		f.set(intends(site(t, "b")))
		r.Accepted(site(t, "b"), 2)
		time.Sleep(time.Hour)
		must(t, r.Flush(t.Context()))
		wantPointers(t, r.api, "a")
		if got := r.ordinary(); got != site(t, "b").Checksum() {
			t.Errorf("ordinary output %s, want b", got)
		}
		if n := len(r.api.names(v1alpha1.KindCfg)); n != 2 {
			t.Errorf("%d outputs are stored, want the ordinary one and a's checkpoint", n)
		}
	})
}

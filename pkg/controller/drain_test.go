package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
	"github.com/holdfast-project/holdfast/test/fakeapi"
)

// throttled brings an installation to the point where the fleet runs an output
// whose receipt the publish throttle holds back.
func throttled(in *installation) (leader *process, pod *proxyPod, before, now fencing.Intent) {
	in.t.Helper()
	pod = in.addPod()
	in.set(version(1))
	leader = in.start("c1")
	pass(20 * time.Second)
	before = in.intent()
	if got := in.newest().Checksum; got != before.Checksum || got == "" {
		in.t.Fatalf("the newest checkpoint is %q, want the first intent's, %q", got, before.Checksum)
	}
	in.set(version(2))
	pass(5 * time.Second)
	now = in.intent()
	if now.PlanID == before.PlanID {
		in.t.Fatal("the second output is not the intent yet")
	}
	if got := in.newest().Checksum; got != before.Checksum {
		in.t.Fatalf("the newest checkpoint is %q, want the first output's, %q: nothing was held back", got, before.Checksum)
	}
	want := []string{"rendered " + before.PlanID, "rendered " + now.PlanID}
	if diff := cmp.Diff(want, pod.loaded()); diff != "" {
		in.t.Fatalf("what the pod loaded (-want +got):\n%s", diff)
	}
	return leader, pod, before, now
}

// writesOf are the writes that a client made, but to Leases.
func (in *installation) writesOf(client string) (writes []string) {
	for _, r := range in.server.Requests() {
		if r.Client == client && r.Writes() && r.Resource != "leases" {
			writes = append(writes, strings.TrimSuffix(strings.Join([]string{r.Verb, r.Resource, r.Name, r.Subresource}, " "), " "))
		}
	}
	return writes
}

// ADR-0033, "Graceful stop".
func TestGracefulLeaderStopLeavesTheNextLeaderAUsableCheckpoint(t *testing.T) {
	install(t, func(t *testing.T, in *installation) {
		leader, old, _, intent := throttled(in)
		leader.end()
		in.must(leader.err)
		newest := in.newest()
		if newest.Checksum != intent.Checksum {
			t.Errorf("after the stop the newest checkpoint is %s, want the intent's, %s", newest.Checksum, intent.Checksum)
		}
		if holder := record.ElectionLease(in.lease("web-leader")).Holder; holder != "" {
			t.Errorf("the lease is still held by %s", holder)
		}

		before := old.loaded()
		in.set(broken())
		fresh := in.addPod()
		in.start("c2")
		pass(30 * time.Second)
		if diff := cmp.Diff([]string{"recovered " + intent.PlanID}, fresh.loaded()); diff != "" {
			t.Errorf("what the new pod loaded (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, old.loaded()); diff != "" {
			t.Errorf("what the configured pod loaded (-want +got):\n%s", diff)
		}
		if active := in.intent().Active; active == nil || active.Checksum != intent.Checksum {
			t.Errorf("the mark of recovery is %+v, want one for %s", active, intent.Checksum)
		}
	})
}

// takeLease makes another replica the holder, as client-go's elector does it.
func (in *installation) takeLease() {
	in.t.Helper()
	lease := in.lease("web-leader")
	other, transitions := "c9_other", *lease.Spec.LeaseTransitions+1
	lease.Spec.HolderIdentity, lease.Spec.LeaseTransitions = &other, &transitions
	l := record.ElectionLease(lease)
	in.update(record.WithEpoch(lease, l.Epoch+1, l.Template))
}

// claimRetained makes another replica's term the one that may write.
func (in *installation) claimRetained() {
	in.t.Helper()
	lease := in.lease(retainedName)
	intent := record.RetainedLease(lease).Intent.Intent
	intent.Epoch, intent.Claim, intent.Holder = intent.Epoch+1, "another", "c9_other"
	in.update(record.WithIntent(lease, intent))
}

// ADR-0033, "Graceful stop": a replica that lost its Lease publishes nothing.
func TestDrainPublishesNothingAfterAnotherReplicaTookTheLease(t *testing.T) {
	tests := []struct {
		name string
		// take is done at the moment of the stop, when the elector knows of nothing.
		take func(in *installation)
	}{
		{"the leader-election lease", (*installation).takeLease},
		{"both leases", func(in *installation) {
			in.takeLease()
			in.claimRetained()
		}},
		{"the retained-state lease of a term that is late to notice", (*installation).claimRetained},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			install(t, func(t *testing.T, in *installation) {
				leader, _, before, _ := throttled(in)
				in.server.ResetRequests()
				tc.take(in)
				leader.end()
				in.must(leader.err)
				if writes := in.writesOf(leader.name); len(writes) > 0 {
					t.Errorf("after another replica took over it wrote\n%s", strings.Join(writes, "\n"))
				}
				if got := in.newest().Checksum; got != before.Checksum {
					t.Errorf("the newest checkpoint is %s, want still %s", got, before.Checksum)
				}
			})
		})
	}
}

// The Lease is taken while the drain waits for the last dispatched output.
func TestDrainPublishesNothingWhenItLosesTheLeaseMeanwhile(t *testing.T) {
	install(t, func(t *testing.T, in *installation) {
		leader, pod, before, _ := throttled(in)
		pod.delay = time.Second
		in.set(version(3))
		pass(500 * time.Millisecond)
		in.server.ResetRequests()
		leader.stop()
		pass(10 * time.Millisecond)
		in.takeLease()
		<-leader.done
		in.must(leader.err)
		for _, write := range in.writesOf(leader.name) {
			t.Errorf("after another replica took over it wrote %s", write)
		}
		if got := in.newest().Checksum; got != before.Checksum {
			t.Errorf("the newest checkpoint is %s, want still %s", got, before.Checksum)
		}
	})
}

// A hand-over within one process drains as a stop does.
func TestChangedSettingsDrainTheTermFirst(t *testing.T) {
	tests := []struct {
		name   string
		change func(in *installation)
		// next is the Lease of the next term.
		next string
	}{
		{name: "another lease name", next: "web-other", change: func(in *installation) {
			spec := version(2)
			spec.Controller.LeaderElection.LeaseName = "web-other"
			in.set(spec)
		}},
		{name: "another template of the same name", next: "web-leader", change: func(in *installation) {
			in.must(in.haptic.HapticV1alpha1().HAProxyTemplateConfigs(namespace).Delete(in.t.Context(), tplName, metav1.DeleteOptions{}))
			in.set(version(2))
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			install(t, func(t *testing.T, in *installation) {
				_, _, _, intent := throttled(in)
				story := in.follow(intent)
				tc.change(in)
				pass(30 * time.Second)
				want := []string{"promoted the held receipt", "released web-leader", "took " + tc.next}
				if diff := cmp.Diff(want, story()); diff != "" {
					t.Errorf("what happened (-want +got):\n%s", diff)
				}
				fresh := in.addPod()
				pass(10 * time.Second)
				if got := fresh.loaded(); len(got) != 1 || !strings.HasPrefix(got[0], "rendered ") {
					t.Errorf("a new pod loaded %v, want one output of the next term", got)
				}
			})
		})
	}
}

// follow writes down, from now on, what a hand-over consists of.
func (in *installation) follow(intent fencing.Intent) (story func() []string) {
	var lines []string
	add := func(line string) {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	in.server.Observe(func(c fakeapi.Change) {
		switch {
		case c.GVR.Resource == "haproxycfgs" && c.Name == "web-haproxycfg":
			pointers, _ := record.Ordinary(decode[v1alpha1.HAProxyCfg](in.t, c.New))
			if len(pointers) > 0 && pointers[0].Checksum == intent.Checksum {
				add("promoted the held receipt")
			}
		case c.GVR.Resource == "leases" && c.Name != retainedName:
			before := record.ElectionLease(decode[coordinationv1.Lease](in.t, c.Old)).Holder
			switch now := record.ElectionLease(decode[coordinationv1.Lease](in.t, c.New)).Holder; {
			case now == "":
				add("released " + c.Name)
			case before == "":
				add("took " + c.Name)
			}
		}
	})
	return func() []string { return lines }
}

// A drain waits for the pods that are being started from a checkpoint, and
// starts no other.
func TestADrainStartsNoPodFromACheckpoint(t *testing.T) {
	install(t, func(t *testing.T, in *installation) {
		first, _, _, intent := throttled(in)
		first.end()
		in.set(broken())
		slow := in.addPod()
		slow.delay = 5 * time.Second
		leader := in.start("c2")
		pass(3 * time.Second)
		if in.intent().Active == nil {
			t.Fatal("recovery is not in force yet")
		}
		leader.stop()
		pass(100 * time.Millisecond)
		late := in.addPod()
		<-leader.done
		in.must(leader.err)
		if diff := cmp.Diff([]string{"recovered " + intent.PlanID}, slow.loaded()); diff != "" {
			t.Errorf("what the pod had loaded when the process ended (-want +got):\n%s", diff)
		}
		pass(time.Minute)
		if diff := cmp.Diff([]string{}, late.loaded()); diff != "" {
			t.Errorf("what the pod loaded that came during the drain (-want +got):\n%s", diff)
		}
	})
}

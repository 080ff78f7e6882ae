package sim

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
)

const (
	maxProcesses = 3
	maxPods      = 5
	// overtakeLimit bounds an overtaking. It is the product's limit of one call:
	// what others have under way when it begins need not have given up.
	overtakeLimit = 5 * time.Second
	// foulChance is how likely, one in so many decisions, a file is lost that a
	// promotion waits for.
	foulChance = 8
)

// Faults that are named elsewhere, too: the one that repairs inputs, and a foreign
// hand on a file.
const (
	changeInputs = "change inputs"
	loseFile     = "lose file"
)

// fault is something that can happen to the world.
type fault struct {
	name   string
	weight int
	// subjects are whom it can happen to now; empty means it cannot.
	subjects func(s *schedule) []string
	strike   func(s *schedule, subject string) error
}

func faults() []fault {
	return []fault{
		{changeInputs, 24, (*schedule).changes, (*schedule).changeInputs},
		{"break inputs", 6, always, func(s *schedule, _ string) error { return s.spoil(inputsBroken) }},
		{"refuse inputs", 3, always, func(s *schedule, _ string) error { return s.spoil(inputsRefused) }},
		{"crash", 7, (*schedule).names, (*schedule).crashNamed},
		{"stop", 7, (*schedule).names, (*schedule).stopNamed},
		{"start", 18, (*schedule).startable, func(s *schedule, pod string) error { s.start(pod); return nil }},
		{"pause", 5, (*schedule).names, func(s *schedule, name string) error { return s.pause(name, true) }},
		{"resume", 10, (*schedule).pausedNames, func(s *schedule, name string) error { return s.pause(name, false) }},
		{"overtake", 7, (*schedule).followers, (*schedule).overtake},
		{"delete lease", 3, leaseNames, (*schedule).deleteLease},
		{"add pod", 7, (*schedule).roomForPod, func(s *schedule, _ string) error { s.addPod(); return nil }},
		{"remove pod", 6, (*schedule).podNames, func(s *schedule, name string) error { s.removePod(name); return nil }},
		{"cut off", 3, (*schedule).podNames, func(s *schedule, name string) error { return s.reach(name, true) }},
		{"reconnect", 8, (*schedule).podNames, func(s *schedule, name string) error { return s.reach(name, false) }},
		{"reject", 3, (*schedule).podNames, (*schedule).rejectOnce},
		{"outage", 4, (*schedule).ripe, func(s *schedule, _ string) error { s.breakDown(); return nil }},
		{loseFile, 3, (*schedule).losable, (*schedule).loseFile},
		{"collect garbage", 4, always, func(s *schedule, _ string) error { s.server.CollectGarbage(); return nil }},
	}
}

func (s *schedule) chooseFault() (Decision, bool) {
	all := faults()
	total := 0
	for _, f := range all {
		total += f.weight * s.profile.faults[f.name]
	}
	dice := s.rng.IntN(total)
	for _, f := range all {
		if dice -= f.weight * s.profile.faults[f.name]; dice < 0 {
			subjects := f.subjects(s)
			// Inputs that are broken stay so for longer.
			if f.name == changeInputs && s.inputs.state != inputsGood && s.rng.IntN(4) > 0 || len(subjects) == 0 {
				return Decision{}, false
			}
			return Decision{Do: f.name, What: subjects[s.rng.IntN(len(subjects))]}, true
		}
	}
	return Decision{}, false
}

// strike lets a fault happen.
func (s *schedule) strike(d Decision) error {
	for _, f := range faults() {
		if f.name == d.Do {
			if !slices.Contains(f.subjects(s), d.What) {
				return fmt.Errorf("%w at decision %d: %s", errDiverged, len(s.trace.Decisions), d)
			}
			return f.strike(s, d.What)
		}
	}
	return fmt.Errorf("%w: no fault is named %q", errDiverged, d.Do)
}

func always(*schedule) []string { return []string{""} }

func leaseNames(*schedule) []string {
	return []string{electionName, electionName, electionName, retainedName}
}

// changes are the versions that inputs may come to.
func (s *schedule) changes() []string {
	var out []string
	for i := range s.profile.versions {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

func (s *schedule) changeInputs(version string) error {
	n, err := strconv.Atoi(version)
	if err != nil {
		return err
	}
	s.setInputs(inputs{version: n, state: inputsGood})
	return nil
}

func (s *schedule) spoil(state string) error {
	s.setInputs(inputs{version: s.inputs.version, state: state})
	return nil
}

// names are the processes that a fault can hit.
func (s *schedule) names() []string {
	var out []string
	for _, p := range s.running() {
		if !p.stopping {
			out = append(out, p.name)
		}
	}
	return out
}

func (s *schedule) pausedNames() []string {
	var out []string
	for _, p := range s.running() {
		if p.paused {
			out = append(out, p.name)
		}
	}
	return out
}

// startable are the pods under whose name a process may start. A second one
// under the same name is a kubelet that lost sight of the first.
func (s *schedule) startable() []string {
	if len(s.running()) >= maxProcesses {
		return nil
	}
	return []string{"a", "b"}
}

func (s *schedule) crashNamed(name string) error {
	s.crash(s.process(name))
	return nil
}

func (s *schedule) stopNamed(name string) error {
	p := s.process(name)
	p.stopping, p.stopped, p.disturbed = true, time.Now(), p.paused
	p.stop()
	return nil
}

func (s *schedule) pause(name string, paused bool) error {
	p := s.process(name)
	p.paused = paused
	p.disturbed = p.disturbed || paused
	return nil
}

func (s *schedule) deleteLease(name string) error {
	err := s.core.CoordinationV1().Leases(namespace).Delete(s.t.Context(), name, metav1.DeleteOptions{})
	if err != nil {
		s.note("    %v", err)
	}
	for _, p := range s.processes {
		p.disturbed = true
	}
	return nil
}

// followers are the processes that could take the Lease from its holder.
func (s *schedule) followers() []string {
	holder := s.leases.election.Holder
	if holder == "" {
		return nil
	}
	var out []string
	for _, p := range s.running() {
		if !p.stopping && !p.paused && !p.owns(holder) {
			out = append(out, p.name)
		}
	}
	return out
}

// overtake lets the clock of a follower jump ahead while the network of all
// others stands still: whatever they have begun, they find the Lease taken and
// the retained state claimed in the middle of it.
func (s *schedule) overtake(name string) error {
	p := s.process(name)
	for _, other := range s.running() {
		other.disturbed = other.disturbed || other != p
	}
	s.ahead, s.held = name, func(i *item) bool { return i.process != name }
	s.deliver(overtakeLimit, func(bool) bool {
		holder := s.leases.election.Holder
		return p.owns(holder) && s.leases.intent().Holder == holder
	})
	s.ahead, s.held = "", nil
	return nil
}

func (s *schedule) roomForPod() []string {
	if len(s.proxies()) >= maxPods {
		return nil
	}
	return []string{""}
}

func (s *schedule) podNames() []string {
	var out []string
	for _, a := range s.proxies() {
		out = append(out, a.name)
	}
	return out
}

// ripe says that an outage would meet a fleet with a checkpoint of its intent.
func (s *schedule) ripe() []string {
	if newest := s.pointers.newest(); newest.Checksum == "" || newest.Checksum != s.leases.intent().Checksum || s.inputs.state != inputsGood {
		return nil
	}
	return []string{""}
}

// losable are files of checkpoints that no pointer names yet.
func (s *schedule) losable() []string { return s.pointers.unpromotedFiles() }

// foul chooses a file that waits for the promotion of its checkpoint, in schedules
// whose foreign hand is after those: between its write and the promotion are few
// decisions.
func (s *schedule) foul() (Decision, bool) {
	if !s.profile.foul || s.rng.IntN(foulChance) > 0 {
		return Decision{}, false
	}
	names := s.losable()
	if len(names) == 0 {
		return Decision{}, false
	}
	return Decision{Do: loseFile, What: names[s.rng.IntN(len(names))]}, true
}

// loseFile deletes a file as somebody would who has the right to and does not
// know better.
func (s *schedule) loseFile(name string) error {
	ctx, stored := s.t.Context(), s.haptic.HapticV1alpha1()
	for _, remove := range []func(context.Context, string, metav1.DeleteOptions) error{
		stored.HAProxyMapFiles(namespace).Delete, stored.HAProxyGeneralFiles(namespace).Delete, s.core.CoreV1().Secrets(namespace).Delete,
	} {
		if err := remove(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func (s *schedule) change(pod string, do func(a *agent)) error {
	for _, a := range s.proxies() {
		if a.name == pod {
			a.mu.Lock()
			do(a)
			a.mu.Unlock()
		}
	}
	return nil
}

func (s *schedule) reach(pod string, cutOff bool) error {
	return s.change(pod, func(a *agent) { a.unreachable = cutOff })
}

func (s *schedule) rejectOnce(pod string) error {
	return s.change(pod, func(a *agent) { a.rejects = 1 })
}

// leaveOldCopy is what a leader of release 0.6 leaves behind.
func (s *schedule) leaveOldCopy(withPlan bool) {
	template, err := s.haptic.HapticV1alpha1().HAProxyTemplateConfigs(namespace).Get(s.t.Context(), templateName, metav1.GetOptions{})
	s.must(err)
	intent := fencing.Intent{UID: string(template.UID), Epoch: 3, Claim: "OLDCLAIM"}
	if withPlan {
		intent.PlanID, intent.Checksum = "00000000000000aa", "00000000000000bb"
	}
	lease := record.WithEpoch(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: electionName, Namespace: namespace}}, 3, fencing.TemplateRef{})
	lease.Annotations[v1alpha1.AnnotationDeploymentIntent] = intent.Encode()
	_, err = s.core.CoordinationV1().Leases(namespace).Create(s.t.Context(), lease, metav1.CreateOptions{})
	s.must(err)
}

package recovery

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/selection"
)

// Target is what a pod that runs the checkpoint says of itself.
type Target struct {
	PlanID, PlanProof, Checksum string
	Files                       map[string]api.FileState
}

// targetOf computes it from the bytes that would be sent.
func targetOf(o *checkpoint.Output) (Target, error) {
	blob, err := o.Plan.Marshal()
	if err != nil {
		return Target{}, fmt.Errorf("encoding the plan: %w", err)
	}
	t := Target{
		PlanID: o.Plan.ID, PlanProof: api.PlanProof(blob), Checksum: o.Checksum(),
		Files: make(map[string]api.FileState, len(o.Plan.Files)),
	}
	contents := map[string][]byte{api.ConfigPath: o.Configuration}
	for _, a := range o.Artifacts {
		contents[a.RuntimePath] = a.Content
	}
	for _, f := range o.Plan.Files {
		t.Files[f.Path] = api.Declare(api.FileSpec{Path: f.Path}, contents[f.Path]).State()
	}
	return t, nil
}

// disagreement is why a configured pod is not exactly on the target, or nil.
func (t Target) disagreement(pod Pod, s *api.State) *selection.Refusal {
	name := "pod " + pod.Name
	other := func(what, expected, found string) *selection.Refusal {
		return &selection.Refusal{Reason: selection.ReasonPodOnAnotherPlan, Checksum: t.Checksum,
			Message: fmt.Sprintf("%s: %s: expected %q, found %q", name, what, expected, found),
			Do:      fmt.Sprintf("Fix rendering. Only if %s is known to be wrong, delete it", name)}
	}
	runs := s.RunningPlanID == t.PlanID && s.RunningPlanProof == t.PlanProof ||
		s.WorkerOpsPlanID == t.PlanID && s.WorkerOpsPlanProof == t.PlanProof
	switch {
	case s.AppliedPlanID != t.PlanID:
		return other("applied plan", t.PlanID, s.AppliedPlanID)
	case s.AppliedPlanProof != t.PlanProof:
		return other("proof of the applied plan", t.PlanProof, s.AppliedPlanProof)
	case !runs:
		return other("running plan", t.PlanID, cmp.Or(s.WorkerOpsPlanID, s.RunningPlanID))
	}
	if what := t.fileDifference(s.Files); what != "" {
		return &selection.Refusal{Reason: selection.ReasonPodFilesDiffer, Checksum: t.Checksum, Message: name + ": " + what,
			Do: fmt.Sprintf("Fix rendering, or delete %s once the other pods carry its load", name)}
	}
	return nil
}

// fileDifference names the first file, by path, in which a pod's set is another.
func (t Target) fileDifference(files map[string]api.FileState) string {
	var paths []string
	for path := range t.Files {
		paths = append(paths, path)
	}
	for path := range files {
		if _, ok := t.Files[path]; !ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		want, expected := t.Files[path]
		have, present := files[path]
		switch {
		case !expected:
			return fmt.Sprintf("file %q: expected none, found %d bytes", path, have.Size)
		case !present:
			return fmt.Sprintf("file %q: expected digest %s with %d bytes, found none", path, want.Digest, want.Size)
		case want != have:
			return fmt.Sprintf("file %q: expected digest %s with %d bytes, found %s with %d", path, want.Digest, want.Size, have.Digest, have.Size)
		}
	}
	return ""
}

// Split parts the bootstrap pods, which may be started, from the refusals of all
// others, by reason and then by name.
type Split struct {
	Bootstrap []Pod
	Refusals  []*selection.Refusal
}

// judgeFleet decides whether the whole fleet agrees on the target. With no
// configured pod in it, the checkpoint's receipt stands in for agreement. A nil
// target judges only whether the pods can be relied on.
func judgeFleet(fleet []Sighting, templateUID string, target *Target) Split {
	var split Split
	sorted := slices.SortedFunc(slices.Values(fleet), func(a, b Sighting) int { return cmp.Compare(a.Pod.Name, b.Pod.Name) })
	for _, s := range sorted {
		refusal := s.doubt(templateUID)
		switch {
		case refusal == nil && s.isBootstrap(templateUID):
			split.Bootstrap = append(split.Bootstrap, s.Pod)
		case refusal == nil && target != nil:
			refusal = target.disagreement(s.Pod, s.State)
		}
		if refusal != nil {
			if target != nil {
				refusal.Checksum = target.Checksum
			}
			refusal.Quiet = refusal.Quiet || s.Starting
			split.Refusals = append(split.Refusals, refusal)
		}
	}
	slices.SortStableFunc(split.Refusals, func(a, b *selection.Refusal) int { return rank(a) - rank(b) })
	return split
}

// podReasons are in the order in which they are told: first what hides what a
// pod runs, then what it runs. What passes by itself comes last.
var podReasons = []selection.Reason{
	selection.ReasonPodUnreachable, selection.ReasonPodForeign, selection.ReasonPodUnverified, selection.ReasonPodViolating, selection.ReasonPodDisowned,
	selection.ReasonPodContradictory, selection.ReasonPodOnAnotherPlan, selection.ReasonPodFilesDiffer, selection.ReasonPodWorkerUnknown, selection.ReasonPodPending,
	selection.ReasonPodStarting,
}

func rank(f *selection.Refusal) int {
	position := slices.Index(podReasons, f.Reason)
	if f.Quiet {
		position += len(podReasons)
	}
	return position
}

// joined is the first refusal, naming the pods of the others too; nil without
// any.
func joined(refusals []*selection.Refusal) *selection.Refusal {
	if len(refusals) == 0 {
		return nil
	}
	first := *refusals[0]
	others := refusals[1:]
	for _, f := range others[:min(len(others), maxNamed)] {
		first.Also = append(first.Also, fmt.Sprintf("%s: %s", f.Reason, f.Message))
	}
	if more := len(others) - maxNamed; more > 0 {
		first.Also = append(first.Also, fmt.Sprintf("and %d more", more))
	}
	return &first
}

// maxNamed bounds the pods that one refusal names beside the first.
const maxNamed = 8

package checkpoint

import (
	"errors"
	"slices"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/plan"
)

// IngestCheckpoint reads a stored checkpoint and keeps nothing of its bytes.
func IngestCheckpoint(s *StoredCheckpoint) *CheckpointFacts {
	facts, _, _ := readCheckpoint(s, nil)
	return facts
}

// readCheckpoint is ingestion that hands out configuration and payload too, which
// must not be written to; nil where they cannot be read.
func readCheckpoint(s *StoredCheckpoint, budget *Budget) (*CheckpointFacts, []byte, *payload) {
	f := &CheckpointFacts{
		Meta:     s.Meta.keep(),
		Path:     common(s.Path),
		Checksum: strings.Clone(s.Checksum),
	}
	f.References = s.References.keep(f.Namespace)
	f.keepDuplicates(s)
	if f.Path == "" {
		f.findings.damaged(ReasonConfigurationPathMissing, f.object(), "spec.path is empty")
	}
	configuration := f.readConfiguration(s, budget)
	p := f.readPayload(s.RetainedPlan)
	if s.RetainedPlan != "" {
		f.binding = payloadBinding(s.Checksum, s.RetainedPlan)
	}
	f.checkDescriptors(p)
	if p.decoded != nil {
		f.readable = true
		f.checkPlan(p)
	}
	f.Receipts = keepEntries(s.Receipts, f.Checksum, f.PlanID)
	if !f.readable {
		return f, configuration, nil
	}
	f.checkBackends(p)
	f.keepPlan(p)
	f.checkPlanFiles()
	if configuration != nil {
		f.checkSections(p.decoded.Plan.Sections, configuration)
	}
	return f, configuration, p
}

// keepDuplicates keeps values that a sound checkpoint has twice, once.
func (f *CheckpointFacts) keepDuplicates(s *StoredCheckpoint) {
	var owner Owner
	if o := f.controller(); o != nil {
		owner = *o
	}
	f.TemplateLabel = sameOrClone(s.TemplateLabel, owner.Name)
	f.RetainedFor = sameOrClone(s.RetainedFor, owner.UID)
	setID := ""
	if f.References != nil {
		setID = f.References.SetID
	}
	f.SetIDAnnotation = sameOrClone(s.SetIDAnnotation, setID)
}

func (f *CheckpointFacts) readConfiguration(s *StoredCheckpoint, budget *Budget) []byte {
	if s.Content == "" {
		f.findings.damaged(ReasonConfigurationUnreadable, f.object(), "spec.content is empty")
		return nil
	}
	configuration, err := loadView(s.Content, s.Compressed, budget)
	if err != nil {
		f.findings.unreadable(ReasonConfigurationUnreadable, f.object(), "spec.content", err)
		return nil
	}
	sum := Summarize(configuration)
	f.Configuration = &sum
	return configuration
}

func (f *CheckpointFacts) readPayload(retainedPlan string) *payload {
	if retainedPlan == "" {
		f.findings.damaged(ReasonPayloadMissing, f.object(), "spec.retainedPlan is empty")
		return &payload{}
	}
	p, err := decodePayload(retainedPlan)
	if err == nil {
		return p
	}
	const field = "spec.retainedPlan"
	if schema, ok := errors.AsType[*plan.SchemaError](err); ok {
		f.findings.unknown(ReasonUnsupportedSchema, f.object(), "%s: %v", field, schema)
		return p
	}
	reason := ReasonPayloadUnreadable
	if bound, ok := errors.AsType[*plan.BoundError](err); ok {
		reason = boundReason(bound)
	}
	f.findings.unreadable(reason, f.object(), field, err)
	return p
}

func boundReason(bound *plan.BoundError) Reason {
	switch bound.What {
	case plan.BoundFiles:
		return ReasonTooManyFiles
	case plan.BoundSections:
		return ReasonTooManySections
	default:
		return ReasonTooLarge
	}
}

// checkDescriptors keeps the declared artifacts and finds those that contradict
// each other.
func (f *CheckpointFacts) checkDescriptors(p *payload) {
	object := f.object()
	runtimePaths := map[string]string{plan.ConfigPath: "the configuration"}
	paths := make(map[Descriptor]bool, len(p.descriptors))
	names := make(map[string]string)
	f.Descriptors = make([]Descriptor, 0, len(p.descriptors))
	for i, d := range p.descriptors {
		d.Path = common(d.Path)
		// Names are base names of paths or paths themselves, and runtime paths their ends.
		d.Name, d.RuntimePath = partOrClone(d.Name, d.Path), partOrClone(d.RuntimePath, d.Path)
		f.Descriptors = append(f.Descriptors, d)
		if other, taken := runtimePaths[d.RuntimePath]; taken {
			f.findings.damaged(ReasonDuplicatePath, object, "artifact %s: runtime path %s belongs to %s already",
				shown(d.Path), shown(d.RuntimePath), other)
		} else {
			runtimePaths[d.RuntimePath] = "artifact " + shown(d.Path)
		}
		if !d.Family.Valid() {
			f.findings.unknown(ReasonUnsupportedFamily, object, "artifact %s: family %d is of a later release", shown(d.Path), p.families[i])
			continue
		}
		key := Descriptor{Family: d.Family, Path: d.Path}
		if paths[key] {
			f.findings.damaged(ReasonDuplicateArtifact, object, "artifact %s of family %s is declared twice", shown(d.Path), d.Family)
		}
		paths[key] = true
		if !sharesStorage(d.Family) {
			continue
		}
		if other, taken := names[d.Name]; taken && other != d.Path {
			f.findings.damaged(ReasonDuplicateArtifact, object, "artifacts %s and %s are both stored as %s",
				shown(other), shown(d.Path), shown(d.Name))
		}
		names[d.Name] = d.Path
	}
	slices.SortStableFunc(f.Descriptors, compareWalked)
}

// sharesStorage tells whether the family's files share one name space on disk.
func sharesStorage(f Family) bool {
	return f == General || f == GeneralCA || f == CRTList
}

func (f *CheckpointFacts) checkPlan(p *payload) {
	object := f.object()
	f.PlanID = strings.Clone(p.decoded.Plan.ID)
	f.StoredEvidence = strings.Clone(p.evidence)
	if f.PlanID != p.decoded.ComputedID {
		f.findings.mismatch(ReasonPlanIDMismatch, object, "plan id", f.PlanID, p.decoded.ComputedID)
	}
	if len(p.nonCanonical) > 0 {
		f.findings.unknown(ReasonNonCanonical, object, "spec.retainedPlan: repeated or differently spelled members: %s",
			shown(strings.Join(p.nonCanonical, ", ")))
	}
	if len(p.unknownMembers) > 0 {
		f.UnknownMembers = cloneAll(p.unknownMembers)
		f.findings.note(ReasonUnknownMembers, object, "spec.retainedPlan: members of a later release: %s",
			shown(strings.Join(p.unknownMembers, ", ")))
	}
}

func cloneAll(texts []string) []string {
	cloned := make([]string, 0, len(texts))
	for _, t := range texts {
		cloned = append(cloned, strings.Clone(t))
	}
	return cloned
}

package checkpoint

import (
	"strings"
	"unique"
)

// CheckpointFacts is what remains of a checkpoint once it has been read: a few
// KiB whatever its size, and no content. It holds no reference into what it was
// read from.
type CheckpointFacts struct {
	Meta
	TemplateLabel, RetainedFor string
	// Path and Checksum are declared by the object.
	Path, Checksum  string
	SetIDAnnotation string
	References      *References
	Receipts        []PodEntry
	// Configuration is nil if spec.content cannot be read.
	Configuration *Sum
	// PlanID is the plan's declared ID; empty if the payload cannot be read.
	PlanID string
	// Descriptors are the declared artifacts in walk order; empty if the payload
	// cannot be read.
	Descriptors []Descriptor
	// StoredEvidence is empty if the checkpoint carries none.
	StoredEvidence string
	// UnknownMembers are payload and plan members of a later release.
	UnknownMembers []string

	// binding is the digest that must end the object's name; empty without payload.
	binding string
	// readable tells whether the plan was read, so that planJSON, files and maps
	// are complete.
	readable bool
	planJSON Sum
	files    []planFile
	maps     []planMap
	findings findings
}

// planFile is what a plan says about one file.
type planFile struct {
	path, digest string
	size         int64
}

// planMap is what a plan says about the entries of one map.
type planMap struct {
	path    string
	entries uint64
}

func (f *CheckpointFacts) object() string { return objectName(KindCfg, f.Name) }

// planFileAt is what the plan says about the file at a runtime path.
func (f *CheckpointFacts) planFileAt(path string) (planFile, bool) {
	for i := range f.files {
		if f.files[i].path == path {
			return f.files[i], true
		}
	}
	return planFile{}, false
}

// ChildFacts is what remains of a child once it has been read. It holds no
// reference into what it was read from.
type ChildFacts struct {
	Meta
	Kind           string
	Family         Family
	Path, FileName string
	// Checksum is the declared file checksum.
	Checksum string
	// Sum is nil if the content cannot be read.
	Sum *Sum

	// entries is the digest of a map's entries.
	entries  uint64
	findings findings
}

func (f *ChildFacts) object() string { return objectName(f.Kind, f.Name) }

// keep is a copy of the meta data without what no check needs.
func (m Meta) keep() Meta {
	kept := m
	kept.Namespace, kept.Name = common(m.Namespace), strings.Clone(m.Name)
	kept.UID, kept.ResourceVersion = strings.Clone(m.UID), strings.Clone(m.ResourceVersion)
	kept.Owners = nil
	for _, o := range m.Owners {
		if !o.Controller {
			continue
		}
		o.APIVersion, o.Kind = interned(o.APIVersion), interned(o.Kind)
		o.Name, o.UID = common(o.Name), common(o.UID)
		kept.Owners = append(kept.Owners, o)
	}
	return kept
}

// interned is the constant that equals text, or a copy of it.
func interned(text string) string {
	for _, known := range [...]string{
		GroupVersion, KindTemplate, KindCfg, KindMapFile, KindGeneralFile, KindCRTListFile, KindSecret,
	} {
		if text == known {
			return known
		}
	}
	return strings.Clone(text)
}

// common is a copy of a text that is the same in thousands of objects: of one
// template, its paths, its pods. All of them share it.
func common(text string) string { return unique.Make(text).Value() }

// sameOrClone is text without memory of its own where it equals one of others.
func sameOrClone(text string, others ...string) string {
	for _, other := range others {
		if text == other {
			return other
		}
	}
	return strings.Clone(text)
}

// partOrClone is text without memory of its own where whole ends with it.
func partOrClone(text, whole string) string {
	if strings.HasSuffix(whole, text) {
		return whole[len(whole)-len(text):]
	}
	return strings.Clone(text)
}

func (r *References) keep(namespace string) *References {
	if r == nil {
		return nil
	}
	lists := r.Lists[:min(len(r.Lists), MaxFiles+1)]
	kept := &References{SetID: strings.Clone(r.SetID), Lists: make([]Reference, 0, len(lists))}
	for _, ref := range lists {
		ref.Kind, ref.Name, ref.Namespace = interned(ref.Kind), strings.Clone(ref.Name), sameOrClone(ref.Namespace, namespace)
		kept.Lists = append(kept.Lists, ref)
	}
	for _, list := range r.Unsupported[:min(len(r.Unsupported), maxUnsupported)] {
		kept.Unsupported = append(kept.Unsupported, shortened(list))
	}
	return kept
}

// Bounds of what facts keep of lists that have no bound of their own.
const (
	maxUnsupported = 16
	maxReceipts    = 16
)

func keepEntries(entries []PodEntry, checksum, planID string) []PodEntry {
	entries = entries[:min(len(entries), maxReceipts)]
	if len(entries) == 0 {
		return nil
	}
	kept := make([]PodEntry, 0, len(entries))
	for _, e := range entries {
		e.PodName, e.PodUID, e.PodRuntimeID = common(e.PodName), common(e.PodUID), common(e.PodRuntimeID)
		e.Checksum, e.AppliedPlanID = sameOrClone(e.Checksum, checksum), sameOrClone(e.AppliedPlanID, planID)
		e.RunningPlanID, e.WorkerOpsPlanID = sameOrClone(e.RunningPlanID, planID), sameOrClone(e.WorkerOpsPlanID, planID)
		e.Mode, e.LastError = common(e.Mode), shortened(e.LastError)
		kept = append(kept, e)
	}
	return kept
}

// shortened is the start of a text of which only its presence matters.
func shortened(text string) string {
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), maxShown)], ""))
}

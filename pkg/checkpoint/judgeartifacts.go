package checkpoint

import (
	"slices"
)

// artifactKey is what a child and its descriptor have in common.
type artifactKey struct {
	group Family
	path  string
}

// judgeArtifacts brings declared artifacts and referenced objects together, and
// leaves one item for each artifact in walk order, then one for each object that
// no artifact claims.
func (j *judge) judgeArtifacts() {
	f := j.facts
	if len(f.Descriptors) == 0 && !f.readable {
		// Nothing is declared as far as we can read; the objects stand for themselves.
		for i := range j.items {
			j.items[i].describe()
		}
		return
	}
	matched := j.matchByPath()
	j.matchByOrder(matched)

	claimed := make([]bool, len(j.items))
	rows := make([]item, 0, len(f.Descriptors))
	for d, i := range matched {
		row := item{}
		if i >= 0 {
			row, claimed[i] = j.items[i], true
		}
		row.Descriptor, row.declared = f.Descriptors[d], true
		j.judgeArtifact(&row)
		j.partDamaged = j.partDamaged || row.findings.concernContent()
		rows = append(rows, row)
	}
	for i := range j.items {
		if claimed[i] {
			continue
		}
		row := j.items[i]
		row.describe()
		j.judgeUndeclared(&row)
		rows = append(rows, row)
	}
	j.items = rows
}

// describe fills an undeclared row from its object.
func (it *item) describe() {
	if it.child == nil {
		it.Family = it.ref.List
		return
	}
	it.Descriptor = Descriptor{Family: it.child.Family, Name: it.child.FileName, Path: it.child.Path}
}

// matchByPath gives each descriptor the index of the item with its path, or -1.
func (j *judge) matchByPath() []int {
	byPath := make(map[artifactKey]int, len(j.items))
	for i := range j.items {
		it := &j.items[i]
		if it.child == nil {
			continue
		}
		key := artifactKey{it.ref.List, it.child.Path}
		if _, taken := byPath[key]; !taken {
			byPath[key] = i
		}
	}
	matched := make([]int, len(j.facts.Descriptors))
	for d, descriptor := range j.facts.Descriptors {
		matched[d] = -1
		key := artifactKey{group(descriptor.Family), descriptor.Path}
		if i, ok := byPath[key]; ok {
			matched[d] = i
			delete(byPath, key)
		}
	}
	return matched
}

// matchByOrder pairs what is left over on both sides of one list where the
// numbers are equal: both are sorted alike, so that an object that is missing, or
// declares a wrong path, is reported on the artifact it is there for.
func (j *judge) matchByOrder(matched []int) {
	taken := make([]bool, len(j.items))
	for _, i := range matched {
		if i >= 0 {
			taken[i] = true
		}
	}
	descriptors := make(map[Family][]int)
	for d, i := range matched {
		if i < 0 {
			g := group(j.facts.Descriptors[d].Family)
			descriptors[g] = append(descriptors[g], d)
		}
	}
	objects := make(map[Family][]int)
	for i := range j.items {
		if !taken[i] {
			g := j.items[i].ref.List
			objects[g] = append(objects[g], i)
		}
	}
	for g, left := range descriptors {
		if len(left) != len(objects[g]) {
			continue
		}
		slices.SortStableFunc(left, func(a, b int) int {
			return compareStreamed(j.facts.Descriptors[a], j.facts.Descriptors[b])
		})
		for n, d := range left {
			matched[d] = objects[g][n]
		}
	}
}

// judgeArtifact checks a declared artifact against its object and the plan.
func (j *judge) judgeArtifact(row *item) {
	f := j.facts
	d := row.Descriptor
	if !d.Family.Valid() {
		row.findings.unknown(ReasonUnsupportedFamily, f.object(), "artifact %s is of a family of a later release", shown(d.Path))
		return
	}
	child := row.child
	if child == nil {
		j.judgeAbsent(row)
		return
	}
	object := child.object()
	if child.Path != d.Path && child.Path != "" {
		reason := ReasonPathMismatch
		if j.storedTwice(child) {
			reason = ReasonDuplicateArtifact
		}
		row.findings.mismatch(reason, object, "path", d.Path, child.Path)
	}
	if child.Family != d.Family && group(child.Family) == row.ref.List {
		row.findings.mismatch(ReasonFamilyMismatch, object, "family", d.Family.String(), child.Family.String())
	}
	if d.Family.NamedByFile() && child.FileName != d.Name {
		row.findings.mismatch(ReasonFileNameMismatch, object, "spec.fileName", d.Name, child.FileName)
	}
	j.judgeContent(row)
}

// judgeAbsent reports an artifact without an object, unless the reason that it
// has none is on the row already, or its list is not committed yet.
func (j *judge) judgeAbsent(row *item) {
	f := j.facts
	switch {
	case row.ref != nil:
	case f.References == nil:
		row.findings.unknown(ReasonUncommitted, f.object(), "artifact %s: no references are committed", shown(row.Path))
	case len(f.References.Unsupported) > 0:
		row.findings.unknown(ReasonUnsupportedFamily, f.object(),
			"artifact %s of family %s: only a reference list of a later release can name its object", shown(row.Path), row.Family)
	default:
		row.findings.damaged(ReasonArtifactMissing, f.object(), "artifact %s of family %s: no referenced object stores it", shown(row.Path), row.Family)
	}
}

// judgeContent compares the stored bytes with the plan.
func (j *judge) judgeContent(row *item) {
	f, child := j.facts, row.child
	file, ok := f.planFileAt(row.RuntimePath)
	if !ok || child.Sum == nil {
		return
	}
	object := child.object()
	if !row.findings.checkPlanFile(object, "content", file, child.Sum) {
		return
	}
	for _, m := range f.maps {
		if m.path != row.RuntimePath || row.Family != Map || child.Family != Map || m.entries == child.entries {
			continue
		}
		state, reason := Unknown, ReasonMapEntriesUnverifiable
		if f.StoredEvidence != "" {
			state, reason = Damaged, ReasonMapEntriesMismatch
		}
		row.findings.add(state, reason, object, "content: its entries are not those of the plan")
	}
}

// storedTwice tells whether another referenced object has the child's path.
func (j *judge) storedTwice(child *ChildFacts) bool {
	for i := range j.items {
		other := j.items[i].child
		if other != nil && other != child && other.Path == child.Path && group(other.Family) == group(child.Family) {
			return true
		}
	}
	return false
}

// judgeUndeclared reports an object that no artifact claims. An artifact of a
// later release may claim it by its path.
func (j *judge) judgeUndeclared(row *item) {
	if row.child == nil {
		return
	}
	object := row.child.object()
	if j.storedTwice(row.child) {
		row.findings.damaged(ReasonDuplicateArtifact, object, "path: another referenced object stores %s too", shown(row.child.Path))
		return
	}
	for _, d := range j.facts.Descriptors {
		if !d.Family.Valid() && d.Path == row.child.Path {
			row.findings.unknown(ReasonUnsupportedFamily, object, "it stores an artifact of a family of a later release")
			return
		}
	}
	row.findings.damaged(ReasonUndeclaredChild, object, "no artifact is declared with path %s", shown(row.child.Path))
}

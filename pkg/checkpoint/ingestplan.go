package checkpoint

import (
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/plan"
)

// checkBackends matches the backends' texts to the plan. How lines are hashed is
// published nowhere; a checkpoint with evidence was written under our rule, any
// other may have been written under one we do not know.
func (f *CheckpointFacts) checkBackends(p *payload) {
	object := f.object()
	declared := p.decoded.Plan.Backends
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		text, ok := p.backends[name]
		if !ok {
			f.findings.damaged(ReasonBackendsMismatch, object, "spec.retainedPlan: backend %s of the plan has no text", shown(name))
			continue
		}
		f.checkLines(p, name, "body", declared[name].BodyDigest, text.Body)
		f.checkLines(p, name, "comments", declared[name].CommentsDigest, text.Comments)
	}
	for _, name := range slices.Sorted(maps.Keys(p.backends)) {
		if _, ok := declared[name]; !ok {
			f.findings.damaged(ReasonBackendsMismatch, object, "spec.retainedPlan: backend %s is not in the plan", shown(name))
		}
	}
}

func (f *CheckpointFacts) checkLines(p *payload, backend, what, expected string, lines []string) {
	found := plan.LinesDigest(lines)
	if found == expected {
		return
	}
	state, reason := Unknown, ReasonBackendTextUnverifiable
	if p.evidence != "" {
		state, reason = Damaged, ReasonBackendTextMismatch
	}
	f.findings.add(state, reason, f.object(), "spec.retainedPlan: %s of backend %s: expected digest %s, found %s",
		what, shown(backend), shown(expected), shown(found))
}

// keepPlan keeps of the plan what children are compared with.
func (f *CheckpointFacts) keepPlan(p *payload) {
	f.planJSON = Summarize(viewBytes(p.planText))
	runtimePaths := make(map[string]string, len(f.Descriptors))
	for _, d := range f.Descriptors {
		runtimePaths[d.RuntimePath] = d.RuntimePath
	}
	f.files = make([]planFile, 0, len(p.decoded.Plan.Files))
	for _, file := range p.decoded.Plan.Files {
		path, ok := runtimePaths[file.Path]
		if !ok {
			path = common(file.Path)
		}
		f.files = append(f.files, planFile{path: path, digest: strings.Clone(file.Digest), size: file.Size})
	}
	for _, d := range f.Descriptors {
		if m, ok := p.decoded.Plan.Maps[d.RuntimePath]; ok && d.Family == Map {
			f.maps = append(f.maps, planMap{path: d.RuntimePath, entries: entriesDigest(m.Entries)})
		}
	}
}

// checkPlanFiles compares the plan's files with configuration and artifacts as
// sets, and the configuration's own entry with its bytes.
func (f *CheckpointFacts) checkPlanFiles() {
	object := f.object()
	expected := map[string]bool{plan.ConfigPath: true}
	for _, d := range f.Descriptors {
		expected[d.RuntimePath] = true
	}
	seen := make(map[string]bool, len(f.files))
	for _, file := range f.files {
		switch {
		case seen[file.path]:
			f.findings.damaged(ReasonPlanFilesMismatch, object, "plan file %s occurs twice", shown(file.path))
		case !expected[file.path]:
			f.findings.damaged(ReasonPlanFilesMismatch, object, "plan file %s is no artifact", shown(file.path))
		}
		seen[file.path] = true
	}
	if !seen[plan.ConfigPath] {
		f.findings.damaged(ReasonPlanFilesMismatch, object, "the plan has no file for the configuration")
	}
	for _, d := range f.Descriptors {
		if !seen[d.RuntimePath] {
			f.findings.damaged(ReasonPlanFilesMismatch, object, "artifact %s is not among the plan's files", shown(d.RuntimePath))
		}
	}
	if file, ok := f.planFileAt(plan.ConfigPath); ok && f.Configuration != nil {
		f.findings.checkPlanFile(object, "spec.content", file, f.Configuration)
	}
}

// checkPlanFile compares content with what the plan says about it and tells
// whether they agree.
func (f *findings) checkPlanFile(object, field string, file planFile, sum *Sum) bool {
	if file.size != sum.Size {
		f.mismatch(ReasonPlanDigestMismatch, object, field+": size in the plan", file.size, sum.Size)
		return false
	}
	if file.digest != sum.PlanDigest {
		f.mismatch(ReasonPlanDigestMismatch, object, field+": digest in the plan", file.digest, sum.PlanDigest)
		return false
	}
	return true
}

// checkSections walks the sections over the configuration. A wrong length ends
// the walk, since all that follows is displaced; a wrong digest does not.
func (f *CheckpointFacts) checkSections(sections []plan.Section, configuration []byte) {
	object := f.object()
	rest := configuration
	for i, s := range sections {
		if s.Length < 0 || s.Length > int64(len(rest)) {
			f.findings.damaged(ReasonSectionMismatch, object, "section %d %s: length is %d, %d bytes are left",
				i, shown(s.Name), s.Length, len(rest))
			return
		}
		if digest := plan.Digest(rest[:s.Length]); digest != s.TextDigest {
			f.findings.damaged(ReasonSectionMismatch, object, "section %d %s: expected digest %s, found %s",
				i, shown(s.Name), shown(s.TextDigest), shown(digest))
		}
		rest = rest[s.Length:]
	}
	if len(rest) > 0 {
		f.findings.damaged(ReasonSectionMismatch, object, "%d bytes of the configuration are in no section", len(rest))
	}
}

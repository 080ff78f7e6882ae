package render

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

// Timeout bounds one render.
const Timeout = 30 * time.Second

// Render makes the output of a snapshot. Equal snapshots and documents give equal
// outputs, whatever the order of the objects. Every failure is an *Error whose text
// holds nothing of a watched Secret.
func (r *Renderer) Render(ctx context.Context, snapshot Snapshot) (*checkpoint.Output, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	output, err := r.remembering(ctx, snapshot)
	if errors.Is(err, errForgets) {
		output, err = r.render(ctx, snapshot, nil)
	}
	if err != nil {
		return nil, snapshot.safe(err)
	}
	return output, nil
}

// errForgets says that a template cannot be rendered from what is remembered.
var errForgets = errors.New("nothing may be remembered")

// remembering renders with what is known of the last render, unless that is in use
// or the template changes what others see.
func (r *Renderer) remembering(ctx context.Context, snapshot Snapshot) (*checkpoint.Output, error) {
	m := r.memory
	if !m.mu.TryLock() {
		return nil, errForgets
	}
	defer m.mu.Unlock()
	if m.changes {
		return nil, errForgets
	}
	output, err := r.render(ctx, snapshot, m)
	if m.changes {
		return nil, errForgets
	}
	return output, err
}

func (r *Renderer) render(ctx context.Context, snapshot Snapshot, m *memory) (*checkpoint.Output, error) {
	now, err := r.start(ctx, snapshot, m)
	if err != nil {
		return nil, err
	}
	now.collects = true
	text, err := now.file(configTemplate, r.context)
	if err != nil {
		return nil, err
	}
	now.collects = false
	configuration, sections, err := now.tile(text)
	if err != nil {
		return nil, err
	}
	if problem := r.checkConfiguration(configuration); problem != nil {
		return nil, r.placed(ctx, snapshot, problem)
	}
	output := &checkpoint.Output{
		ConfigurationPath: plan.ConfigPath,
		Configuration:     configuration,
		Backends:          make(map[string]checkpoint.BackendText, len(now.backends)),
	}
	total := len(configuration)
	for _, a := range now.added {
		total += len(a.content)
		output.Artifacts = append(output.Artifacts, artifact(a.file, []byte(a.content)))
	}
	for _, file := range r.files {
		content, err := now.file(file.path, r.context)
		if err != nil {
			return nil, err
		}
		if err := checkFile(file, content); err != nil {
			return nil, err
		}
		total += len(content)
		output.Artifacts = append(output.Artifacts, artifact(file, content))
	}
	if total > api.MaxApplyBytes {
		return nil, tooLarge("", "the output has %d bytes, the limit is %d", total, api.MaxApplyBytes)
	}
	output.SortArtifacts()
	if m != nil {
		m.texts, m.kinds = now.texts, now.view.kinds
	}
	return output, now.declare(output, sections)
}

// start binds the functions to one render, which uses m until it ends.
func (r *Renderer) start(ctx context.Context, snapshot Snapshot, m *memory) (*run, error) {
	now := &run{
		ctx: ctx, view: newView(snapshot, nil), declared: r.declared, documents: r.documents, values: r.context,
		backendNames: map[string]bool{},
	}
	if m != nil {
		m.renders++
		now.memory, now.number = m, m.renders
		now.texts, now.makers = map[textKey]*remembered{}, map[uintptr]maker{}
		now.view.before = m.kinds
	}
	set, err := r.set.Clone()
	if err != nil {
		return nil, invalid("", "%w", err)
	}
	now.set = set.Funcs(now.functions())
	return now, nil
}

// artifact describes a file. Paths are relative to the set everywhere, so the
// same output is the same bytes wherever a pod mounts it.
func artifact(file fileTemplate, content []byte) checkpoint.Artifact {
	d := checkpoint.Descriptor{Family: file.family, Path: file.path, RuntimePath: file.path}
	switch file.family {
	case checkpoint.Map:
		d.Name = file.path
	case checkpoint.General:
		d.Name = path.Base(file.path)
		// HAProxy reads a general file once, at its start.
		d.ReloadOnChange = true
	default:
		d.Name = path.Base(file.path)
	}
	return checkpoint.Artifact{Descriptor: d, Content: content}
}

// declare writes the plan of an output.
func (r *run) declare(output *checkpoint.Output, sections []plan.Section) error {
	p := &plan.Plan{
		SchemaVersion: plan.SchemaVersion,
		Sections:      sections,
		Backends:      make(map[string]plan.Backend, len(r.backends)),
		Profiles:      map[string]plan.Profile{},
		Maps:          map[string]plan.Map{},
	}
	for _, e := range r.backends {
		p.Backends[e.record.Name] = e.record
		output.Backends[e.record.Name] = e.lines
	}
	p.Files = append(p.Files, plan.File{
		Path: plan.ConfigPath, Kind: plan.FileConfig,
		Digest: plan.Digest(output.Configuration), Size: int64(len(output.Configuration)),
	})
	for _, a := range output.Artifacts {
		p.Files = append(p.Files, plan.File{
			Path: a.RuntimePath, Kind: a.Family.FileKind(), ReloadOnChange: a.ReloadOnChange,
			Digest: plan.Digest(a.Content), Size: int64(len(a.Content)),
		})
		if a.Family == checkpoint.Map {
			// Whether order matters depends on how the configuration uses the
			// map, which is not known here, so it is taken to matter.
			p.Maps[a.RuntimePath] = plan.Map{Path: a.RuntimePath, Ordered: true, Entries: plan.MapEntries(a.Content)}
		}
	}
	id, err := p.ComputeID()
	if err != nil {
		return fmt.Errorf("naming the plan: %w", err)
	}
	p.ID = id
	output.Plan = p
	return nil
}

// safe makes every failure an *Error without secrets.
func (s Snapshot) safe(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Reason: ReasonRenderFailed, Err: err}
	}
	clean := *e
	clean.Value = s.Redact(e.Value)
	clean.Err = errors.New(s.Redact(e.Err.Error()))
	return &clean
}

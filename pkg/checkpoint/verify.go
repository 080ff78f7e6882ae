package checkpoint

import "bytes"

// Bundle is everything stored of one checkpoint, as bytes.
type Bundle struct {
	Template   Template
	Checkpoint *StoredCheckpoint
	// Children may hold objects that the checkpoint does not reference.
	Children []*StoredChild
	// Pointer is the promoted pointer that names the checkpoint; nil without one.
	Pointer *Pointer
	// Absent says what it means that a referenced object is not among the children.
	// Nil means that it does not exist; half an export may know better.
	Absent func(kind, name string) Presence
}

// Verify is ingestion and judgement of bytes at once. The output is restored
// only when nothing is damaged and every byte was there; it is nil otherwise.
func Verify(t Template, c *StoredCheckpoint, children []*StoredChild, pointer *Pointer) (Verdict, *Output) {
	return Bundle{Template: t, Checkpoint: c, Children: children, Pointer: pointer}.Verify()
}

type childKey struct {
	kind, name string
}

// loadedChild is a child that was read at most once.
type loadedChild struct {
	stored  *StoredChild
	facts   *ChildFacts
	content []byte
}

// verification is one bundle in the course of being read. Only what is referenced
// is read, all of it under one budget.
type verification struct {
	Bundle
	budget        *Budget
	children      map[childKey]*loadedChild
	facts         *CheckpointFacts
	configuration []byte
	payload       *payload
}

// Verify is ingestion and judgement of the bundle's bytes, see the function.
func (b Bundle) Verify() (Verdict, *Output) {
	verdict, v, items := b.read()
	if verdict.State == Damaged || verdict.Evidence == "" {
		return verdict, nil
	}
	return verdict, v.restore(items)
}

// Judge is Verify for those who want no output: it copies nothing.
func (b Bundle) Judge() Verdict {
	verdict, _, _ := b.read()
	return verdict
}

func (b Bundle) read() (Verdict, *verification, []item) {
	v := &verification{Bundle: b, budget: NewBudget(), children: make(map[childKey]*loadedChild, len(b.Children))}
	for _, child := range b.Children {
		if child.Namespace != b.Checkpoint.Namespace {
			continue
		}
		v.children[childKey{child.Kind, child.Name}] = &loadedChild{stored: child}
	}
	v.facts, v.configuration, v.payload = readCheckpoint(b.Checkpoint, v.budget)

	j := newJudge(Input{
		Template:   b.Template,
		Checkpoint: v.facts,
		Child:      v.child,
		Pointer:    b.Pointer,
	})
	j.ContentChecksum = func(string) (string, bool) { return v.contentChecksum(j.items), true }
	verdict := j.judge()
	return verdict, v, j.items
}

func (v *verification) child(kind, name string) (*ChildFacts, Presence) {
	c, ok := v.children[childKey{kind, name}]
	if !ok {
		if v.Absent != nil {
			return nil, v.Absent(kind, name)
		}
		return nil, Missing
	}
	if c.facts == nil {
		c.facts, c.content = readChild(c.stored, v.budget)
	}
	return c.facts, Present
}

func (v *verification) artifacts(items []item) []Artifact {
	artifacts := make([]Artifact, 0, len(items))
	for i := range items {
		it := &items[i]
		if it.declared && it.ref != nil {
			content := v.children[childKey{it.ref.Kind, it.ref.Name}].content
			artifacts = append(artifacts, Artifact{Descriptor: it.Descriptor, Content: content})
		}
	}
	return artifacts
}

func (v *verification) contentChecksum(items []item) string {
	return ContentChecksum(v.configuration, v.artifacts(items))
}

// restore puts the output together as it was published, in memory of its own.
func (v *verification) restore(items []item) *Output {
	o := &Output{
		ConfigurationPath: v.facts.Path,
		Configuration:     bytes.Clone(v.configuration),
		Plan:              v.payload.decoded.Plan,
		Backends:          v.payload.backends,
		Artifacts:         v.artifacts(items),
	}
	for i := range o.Artifacts {
		o.Artifacts[i].Content = bytes.Clone(o.Artifacts[i].Content)
	}
	if o.Backends == nil {
		o.Backends = map[string]BackendText{}
	}
	return o
}

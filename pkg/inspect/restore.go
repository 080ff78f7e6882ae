package inspect

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/record"
)

// Restored is a checkpoint whose every byte was verified, with its content.
type Restored struct {
	Namespace, Name string
	Output          *checkpoint.Output
}

// ErrWhichCheckpoint says that no one checkpoint is meant.
var ErrWhichCheckpoint = errors.New("it is not clear which checkpoint is meant")

// Restore finds one checkpoint by its name, or by the beginning of its checksum,
// and restores its content. One that is damaged is refused: nobody should look at
// content that is not what was stored.
func (inv *Inventory) Restore(which string) (*Restored, error) {
	at, r, err := inv.find(which)
	if err != nil {
		return nil, err
	}
	bundle := checkpoint.Bundle{
		Template:   checkpoint.Template{Namespace: at.namespace, Name: r.templateName, UID: r.templateUID},
		Checkpoint: record.Checkpoint(r.cfg),
	}
	for _, c := range at.children {
		bundle.Children = append(bundle.Children, c.stored)
	}
	verdict, output := bundle.Verify()
	if output == nil {
		return nil, fmt.Errorf("checkpoint %s/%s cannot be restored: %s: %s", at.namespace, r.cfg.Name, verdict.Reason, verdict.Message)
	}
	return &Restored{Namespace: at.namespace, Name: r.cfg.Name, Output: output}, nil
}

// find is the one checkpoint with a name, or with a checksum that begins so.
func (inv *Inventory) find(which string) (*space, *retained, error) {
	var found *retained
	var names []string
	var at *space
	for _, namespace := range slices.Sorted(maps.Keys(inv.spaces)) {
		sp := inv.spaces[namespace]
		for _, name := range slices.Sorted(maps.Keys(sp.retained)) {
			r := sp.retained[name]
			if name == which || which != "" && strings.HasPrefix(r.cfg.Spec.Checksum, which) {
				found, names, at = r, append(names, namespace+"/"+name), sp
			}
		}
	}
	switch len(names) {
	case 0:
		return nil, nil, fmt.Errorf("%w: found none with name or checksum %q", ErrWhichCheckpoint, which)
	case 1:
		return at, found, nil
	}
	return nil, nil, fmt.Errorf("%w: %q fits %s", ErrWhichCheckpoint, which, strings.Join(names, ", "))
}

// Text is the configuration, or a file by its path. Certificates and bundles of
// authorities are shown to nobody.
func (r *Restored) Text(path string) ([]byte, error) {
	if path == "" || path == r.Output.ConfigurationPath {
		return r.Output.Configuration, nil
	}
	for i := range r.Output.Artifacts {
		switch a := &r.Output.Artifacts[i]; {
		case a.Path != path && a.RuntimePath != path:
		case isHidden(a):
			return nil, fmt.Errorf("file %s of checkpoint %s/%s is of family %s, whose content is not shown", path, r.Namespace, r.Name, a.Family)
		default:
			return a.Content, nil
		}
	}
	return nil, fmt.Errorf("checkpoint %s/%s has no file %s", r.Namespace, r.Name, path)
}

func isHidden(a *checkpoint.Artifact) bool { return a.Family.IsSecret() || a.Family.IsCA() }

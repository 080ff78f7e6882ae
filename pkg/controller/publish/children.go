package publish

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// objectKey names a stored file.
type objectKey struct {
	kind, name string
}

// listed is what one list per kind showed, in order of kinds and names.
type listed struct {
	order []objectKey
	found map[objectKey]*child
}

// listOrdinary reads the files of the ordinary output, live. It answers the
// first read of each child and gives the candidates for deletion. Its children
// carry the same label in every form that was ever published.
func (p *Publisher) listOrdinary(ctx context.Context, outputName string, kinds []childKind) (*listed, error) {
	selector := labels.SelectorFromSet(ordinaryLabels(outputName)).String()
	return listEach(ctx, kinds, func(childKind) string { return selector })
}

// secretRoles select the Secrets that store files, whoever wrote them: a reader
// requires the role label. A Secret that lost it is found by its name.
const secretRoles = v1alpha1.LabelType + " in (" + v1alpha1.SecretTypeCertificate + "," + v1alpha1.SecretTypeCA + ")"

// listShared reads every file in the namespace, live, since the labels of the
// shared files that HAPTIC 0.7 wrote are not published and only their owner
// tells them.
func (p *Publisher) listShared(ctx context.Context) (*listed, error) {
	return listEach(ctx, p.kinds, func(k childKind) string {
		if k.name() == v1alpha1.KindSecret {
			return secretRoles
		}
		return ""
	})
}

// listEach reads each kind once.
func listEach(ctx context.Context, kinds []childKind, selector func(childKind) string) (*listed, error) {
	l := &listed{found: map[objectKey]*child{}}
	for _, k := range kinds {
		found, err := k.list(ctx, selector(k))
		if err != nil {
			return nil, fmt.Errorf("list %s objects: %w", k.name(), err)
		}
		for _, c := range found {
			key := objectKey{kind: k.name(), name: c.GetName()}
			l.order = append(l.order, key)
			l.found[key] = c
		}
	}
	return l, nil
}

// stored gives what was listed as values for verification.
func (l *listed) stored() []*checkpoint.StoredChild {
	all := make([]*checkpoint.StoredChild, 0, len(l.order))
	for _, key := range l.order {
		all = append(all, l.found[key].stored)
	}
	return all
}

// childSet is the children that a publication needs, and what it knows of them.
type childSet struct {
	owner  owner
	labels map[string]string
	// claim is this publication's own.
	claim string
	// name gives a file's object name.
	name func(*file) string
	// committed are the children that committed references already name. They
	// keep their claim; all others get a fresh one, so that a deletion which is
	// under way loses.
	committed map[objectKey]bool
	listed    *listed
}

// ensureChildren makes every file of the output exist as it should be. It gives
// what is stored of each and how many had to be written.
func (p *Publisher) ensureChildren(ctx context.Context, e *encoded, set childSet) (children []*child, written int, err error) {
	children = make([]*child, len(e.files))
	var wrote atomic.Int64
	err = inParallel(ctx, len(e.files), func(i int) error {
		stored, changed, err := p.ensureChild(ctx, &e.files[i], set)
		if changed {
			wrote.Add(1)
		}
		if err != nil {
			return fmt.Errorf("publish %s: %w", e.files[i].Path, err)
		}
		children[i] = stored
		return nil
	})
	return children, int(wrote.Load()), err
}

func (p *Publisher) ensureChild(ctx context.Context, f *file, set childSet) (stored *child, wrote bool, err error) {
	k := p.kindNamed(f.Family.Kind())
	name := set.name(f)
	key := objectKey{kind: k.name(), name: name}
	want := buildChild(f, metav1.ObjectMeta{
		Name: name, Namespace: p.settings.Template.Namespace, Labels: set.labels, OwnerReferences: ownedBy(set.owner),
	}, set.claim)
	stored = set.listed.found[key]
	err = p.retry(ctx, func(ctx context.Context, again bool) error {
		if again {
			var err error
			if stored, err = k.get(ctx, name); apierrors.IsNotFound(err) {
				stored = nil
			} else if err != nil {
				return err
			}
		}
		write, err := judgeChild(stored, want, f, set, key)
		if err != nil || !write {
			return err
		}
		if err := p.fence.Check(ctx); err != nil {
			return err
		}
		var written *child
		if stored == nil {
			written, err = k.create(ctx, want)
		} else {
			written, err = k.update(ctx, stored, want)
		}
		if err != nil {
			return explain(err, "write %s %s", k.name(), name)
		}
		stored, wrote = written, true
		return nil
	})
	return stored, wrote, err
}

// judgeChild decides whether an object must be written, and sets the claim that
// want then carries. An object that is being deleted cannot satisfy a
// publication, and one that another controller owns is not ours to change.
func judgeChild(current *child, want metav1.Object, f *file, set childSet, key objectKey) (write bool, err error) {
	if current == nil {
		return true, nil
	}
	if current.GetDeletionTimestamp() != nil {
		return false, fmt.Errorf("%s %s: %w", key.kind, key.name, ErrTerminating)
	}
	if metav1.GetControllerOf(current) != nil && !set.owner.controls(current) {
		return false, fmt.Errorf("%s %s: %w", key.kind, key.name, ErrForeign)
	}
	claim := set.claim
	if set.committed[key] && current.claim() != "" {
		claim = current.claim()
	}
	want.GetAnnotations()[v1alpha1.AnnotationAuxiliaryClaim] = claim
	same := set.owner.controls(current) &&
		contains(current.GetLabels(), want.GetLabels()) && contains(current.GetAnnotations(), want.GetAnnotations()) &&
		storesFile(current.stored, f)
	return !same, nil
}

func contains(current, want map[string]string) bool {
	for key, value := range want {
		if current[key] != value {
			return false
		}
	}
	return true
}

// storesFile tells whether an object holds exactly the file: the bytes, not the
// text by which a compressor may spell them. Certificates are compared by their
// bytes too.
func storesFile(stored *checkpoint.StoredChild, f *file) bool {
	if stored.Family != f.Family || stored.Path != f.Path || stored.Checksum != f.checksum || len(stored.Problems) > 0 {
		return false
	}
	if f.Family.NamedByFile() && stored.FileName != f.Name {
		return false
	}
	if !f.Family.IsSecret() && stored.Empty != (len(f.content) == 0) {
		return false
	}
	content, err := checkpoint.Load(stored.Text, stored.Compressed, nil)
	return err == nil && bytes.Equal(content, f.content)
}

func (p *Publisher) kindNamed(name string) childKind {
	for _, k := range p.kinds {
		if k.name() == name {
			return k
		}
	}
	// Families and kinds are fixed by the format, so this cannot be reached.
	panic("no client for kind " + name)
}

package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/view"
)

const (
	// ExportFormat is what the manifest of an export says it is.
	ExportFormat = "holdfast-export/1"
	// exportManifest makes a folder an export; exportObjects are the stored objects
	// in it, and below exportFolder lie the files as they were on the proxies.
	exportManifest, exportObjects, exportFolder = "holdfast-export.json", "objects.json", "files"
)

// ErrSecretsWithheld says that Secrets were asked for and cannot be given.
var ErrSecretsWithheld = errors.New("a Secret cannot be exported")

// ExportSettings say what goes into an export.
type ExportSettings struct {
	// Checkpoint is a name, or the beginning of a checksum.
	Checkpoint string
	// Secrets takes in certificates with their keys, and bundles of authorities.
	Secrets bool
	// Now and Version, of this program, are told in the manifest.
	Now     time.Time
	Version string
}

// ExportManifest tells what an export consists of and what was found of it.
type ExportManifest struct {
	Format      string    `json:"format"`
	ExportedAt  time.Time `json:"exportedAt"`
	ExportedBy  string    `json:"exportedBy"`
	FromCluster bool      `json:"fromCluster"`
	// Secrets tells that keys are among the files.
	Secrets    bool   `json:"secrets"`
	Namespace  string `json:"namespace"`
	Checkpoint string `json:"checkpoint"`
	// View is the checkpoint as the API would serve it, and Findings is what was
	// found wrong, or is worth telling, beside it.
	View     *views.RetainedCheckpoint `json:"view"`
	Findings []ExportFinding           `json:"findings"`
	// Files are all files of the export but the manifest.
	Files   []ExportedFile `json:"files"`
	LeftOut []LeftOut      `json:"leftOut"`
}

// ExportFinding is a finding of the verdict.
type ExportFinding struct {
	State   checkpoint.State  `json:"state"`
	Reason  checkpoint.Reason `json:"reason"`
	Message string            `json:"message"`
}

// ExportedFile is one file of an export.
type ExportedFile struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Family and Object tell of a file of the checkpoint what it is and what stores it.
	Family string `json:"family,omitempty"`
	Object string `json:"object,omitempty"`
}

// LeftOut is something that belongs to a checkpoint and is not in its export.
type LeftOut struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Export is a checkpoint with its evidence, ready to be written.
type Export struct {
	Manifest ExportManifest
	outcome  Outcome
	contents map[string][]byte
}

// Outcome tells how the checkpoint was judged. Other than for Verify it does not
// matter whether a pointer names it: whoever exports it asks about it.
func (e *Export) Outcome() Outcome { return e.outcome }

func outcomeOf(state checkpoint.State) Outcome {
	switch state {
	case checkpoint.Damaged:
		return Damaged
	case checkpoint.Unknown:
		return Unjudged
	}
	return Sound
}

// NewExport takes a checkpoint and what its verdict depends on out of an inventory
// that was read with its originals. A damaged one is exported too, since that is
// what evidence is for; but only files that verify are laid out.
func NewExport(inv *Inventory, settings ExportSettings) (*Export, error) {
	sp, r, err := inv.find(settings.Checkpoint)
	if err != nil {
		return nil, err
	}
	judged, err := (&verifier{inv: inv, report: &Report{}}).judge(sp, r)
	if err != nil {
		return nil, err
	}
	x := &exporter{inv: inv, sp: sp, r: r, judged: judged, secrets: settings.Secrets}
	x.Export = &Export{outcome: outcomeOf(judged.Verdict.State), contents: map[string][]byte{}}
	view := judged.View.DeepCopy()
	view.SetGroupVersionKind(views.SchemeGroupVersion.WithKind("RetainedCheckpoint"))
	x.Manifest = ExportManifest{
		Format: ExportFormat, ExportedAt: settings.Now.UTC(), ExportedBy: settings.Version, FromCluster: inv.live,
		Secrets: settings.Secrets, Namespace: sp.namespace, Checkpoint: r.cfg.Name, View: view,
		Findings: []ExportFinding{}, Files: []ExportedFile{}, LeftOut: []LeftOut{},
	}
	for _, f := range judged.Verdict.Findings {
		x.Manifest.Findings = append(x.Manifest.Findings, ExportFinding(f))
	}
	if err := x.objects(); err != nil {
		return nil, err
	}
	x.files()
	return x.Export, x.seal()
}

// exporter is an export in the making.
type exporter struct {
	*Export
	inv     *Inventory
	sp      *space
	r       *retained
	judged  *Checkpoint
	secrets bool
}

func (x *exporter) leave(what, why string, args ...any) {
	x.Manifest.LeftOut = append(x.Manifest.LeftOut, LeftOut{What: what, Why: fmt.Sprintf(why, args...)})
}

// put adds a file and reports whether there was none of that path.
func (x *exporter) put(file ExportedFile, content []byte) bool {
	if _, there := x.contents[file.Path]; there {
		return false
	}
	file.Size, file.SHA256 = int64(len(content)), checkpoint.FileChecksum(content)
	x.contents[file.Path] = content
	x.Manifest.Files = append(x.Manifest.Files, file)
	return true
}

// seal writes the manifest, when everything else is known.
func (x *exporter) seal() error {
	raw, err := json.MarshalIndent(x.Manifest, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	x.contents[exportManifest] = append(escaped(raw), '\n')
	return nil
}

// wanted are the stored objects that a verdict on the checkpoint depends on.
func (x *exporter) wanted() []identity {
	ns := x.sp.namespace
	found := []identity{
		{v1alpha1.KindTemplateConfig, ns, x.r.templateName},
		{v1alpha1.KindCfg, ns, checkpoint.OrdinaryName(x.r.templateName)},
		{v1alpha1.KindCfg, ns, x.r.cfg.Name},
	}
	if x.r.stored.References != nil {
		for _, ref := range x.r.stored.References.Lists {
			found = append(found, identity{ref.Kind, ns, ref.Name})
		}
	}
	if t := x.sp.templates[x.r.templateName]; t != nil {
		view.LeasesOf(&t.Template, func(name string) *view.Lease {
			found = append(found, identity{KindLease, ns, name})
			if stored := x.sp.leases[name]; stored != nil {
				return &stored.Lease
			}
			return nil
		})
	}
	return found
}

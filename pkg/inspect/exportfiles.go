package inspect

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// files lays out what verifies, as it was on the proxies.
func (x *exporter) files() {
	verdict := &x.judged.Verdict
	budget := checkpoint.NewBudget()
	switch {
	case verdict.State == checkpoint.Damaged:
		x.leave("configuration", "the checkpoint does not verify; its bytes are in %s", exportObjects)
	case verdict.Configuration == nil:
		x.leave("configuration", "it cannot be read")
	default:
		x.file(&content{
			path: verdict.ConfigurationPath, family: "Configuration", object: objectName(checkpoint.KindCfg, x.r.cfg.Name),
			text: x.r.stored.Content, compressed: x.r.stored.Compressed, checksum: verdict.Configuration.FileChecksum(),
		}, budget)
	}
	for i := range verdict.Artifacts {
		a := &verdict.Artifacts[i]
		stored := x.sp.children[childKey{a.Kind, a.Object}]
		switch {
		case a.State != checkpoint.Verified:
			x.leave(a.Family.String()+" "+a.Path, "it does not verify: %s", a.Reason)
		case (a.Family.IsSecret() || a.Family.IsCA()) && !x.secrets:
			x.leave(a.Family.String()+" "+a.Path, withoutSecrets)
		case stored == nil:
			x.leave(a.Family.String()+" "+a.Path, "no object stores it")
		default:
			x.file(&content{
				path: a.Path, family: a.Family.String(), object: objectName(a.Kind, a.Object),
				text: stored.stored.Text, compressed: stored.stored.Compressed, checksum: a.Checksum,
			}, budget)
		}
	}
}

// content is a file of a checkpoint as it is stored.
type content struct {
	path, family, object string
	text                 string
	compressed           bool
	checksum             string
}

func (x *exporter) file(c *content, budget *checkpoint.Budget) {
	what := c.family + " " + quoted(c.path)
	to, ok := exportPath(c.path)
	if !ok {
		// The stored bytes are evidence all the same, so that this is no reason to
		// export nothing.
		x.leave(what, "its path was refused: it leads out of the folder, or is no plain path")
		x.outcome = worse(x.outcome, Unjudged)
		return
	}
	raw, err := checkpoint.Load(c.text, c.compressed, budget)
	switch {
	case err != nil:
		x.leave(what, "its content cannot be read")
	case checkpoint.FileChecksum(raw) != c.checksum:
		x.leave(what, "its content does not have the checksum %s", c.checksum)
	case !x.put(ExportedFile{Path: to, Family: c.family, Object: c.object}, raw):
		x.leave(what, "another file has the same path")
	}
}

// exportPath is where a file of the checkpoint lies in an export. Paths are text
// that somebody stored, so that nothing but a plain path is followed.
func exportPath(stored string) (string, bool) {
	relative := strings.TrimPrefix(stored, "/")
	if relative == "" || relative == "." || path.Clean(relative) != relative || !filepath.IsLocal(relative) {
		return "", false
	}
	for _, r := range relative {
		if r < ' ' || r == 0x7f || r == '\\' || r == ':' {
			return "", false
		}
	}
	return exportFolder + "/" + relative, true
}

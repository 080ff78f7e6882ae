package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// Diff tells how two checkpoints differ: text as a unified diff, certificates and
// bundles of authorities by their checksums. It is empty if nothing differs.
func Diff(from, to *Restored) string {
	var out strings.Builder
	out.WriteString(textDiff(from, to, from.Output.ConfigurationPath, string(from.Output.Configuration), string(to.Output.Configuration)))
	before, after := artifactsOf(from), artifactsOf(to)
	paths := maps.Clone(before)
	maps.Copy(paths, after)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		was, is := before[path], after[path]
		switch {
		case was != nil && isHidden(was), is != nil && isHidden(is):
			if line := hiddenDiff(was, is); line != "" {
				fmt.Fprintf(&out, "%s %s: %s\n", paths[path].Family, path, line)
			}
		default:
			out.WriteString(textDiff(from, to, path, contentOf(was), contentOf(is)))
		}
	}
	return out.String()
}

func textDiff(from, to *Restored, path, was, is string) string {
	return udiff.Unified(from.Name+":"+path, to.Name+":"+path, was, is)
}

// hiddenDiff says what became of a file whose content is not shown.
func hiddenDiff(was, is *checkpoint.Artifact) string {
	switch {
	case was == nil:
		return "added, " + checkpoint.FileChecksum(is.Content)
	case is == nil:
		return "removed, was " + checkpoint.FileChecksum(was.Content)
	}
	before, after := checkpoint.FileChecksum(was.Content), checkpoint.FileChecksum(is.Content)
	if before == after {
		return ""
	}
	return "changed from " + before + " to " + after
}

func artifactsOf(r *Restored) map[string]*checkpoint.Artifact {
	found := make(map[string]*checkpoint.Artifact, len(r.Output.Artifacts))
	for i := range r.Output.Artifacts {
		found[r.Output.Artifacts[i].Path] = &r.Output.Artifacts[i]
	}
	return found
}

func contentOf(a *checkpoint.Artifact) string {
	if a == nil {
		return ""
	}
	return string(a.Content)
}

package inspect

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/printers"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// table is rows under a header, all cells of the input made harmless.
type table struct {
	title  string
	header []string
	rows   [][]string
	seen   map[string]bool
}

// add appends a row, unless it is there already: two checkpoints share files,
// and so the findings on them.
func (t *table) add(cells ...string) {
	for i := range cells {
		cells[i] = printable(cells[i])
	}
	key := strings.Join(cells, "\t")
	if t.seen[key] {
		return
	}
	if t.seen == nil {
		t.seen = map[string]bool{}
	}
	t.seen[key] = true
	t.rows = append(t.rows, cells)
}

// printable keeps a cell on its line and out of the terminal's controls.
func printable(cell string) string {
	if cell == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x2028 || r == 0x2029 {
			return '?'
		}
		return r
	}, cell)
}

// printTables prints the checkpoints, then artifacts that are not verified, then
// every finding and notice.
func printTables(out io.Writer, report *Report) error {
	checkpoints := table{header: []string{
		"NAMESPACE", "NAME", "TEMPLATE", "POSITION", "VERIFIED", "ACKNOWLEDGED", "INTENDED", "RECOVERABLE", "REASON",
	}}
	artifacts := table{title: "ARTIFACTS THAT ARE NOT VERIFIED", header: []string{
		"NAMESPACE", "FAMILY", "PATH", "OBJECT", "VERDICT", "REASON",
	}}
	findings := table{title: "FINDINGS", header: []string{"NAMESPACE", "STATE", "REASON", "OBJECT", "FINDING"}}
	for i := range report.Checkpoints {
		c := &report.Checkpoints[i]
		checkpoints.add(checkpointRow(c)...)
		for k := range c.Verdict.Artifacts {
			if a := &c.Verdict.Artifacts[k]; a.State != checkpoint.Verified {
				artifacts.add(c.View.Namespace, a.Family.String(), a.Path, objectOf(a), string(a.State), string(a.Reason))
			}
		}
		for _, f := range c.Verdict.Findings {
			findings.add(findingRow(c.View.Namespace, &f)...)
		}
	}
	for i := range report.Notices {
		findings.add(findingRow(report.Notices[i].Namespace, &report.Notices[i].Finding)...)
	}
	between := ""
	for _, t := range []*table{&checkpoints, &artifacts, &findings} {
		if len(t.rows) == 0 {
			continue
		}
		if _, err := io.WriteString(out, between); err != nil {
			return err
		}
		if err := t.print(out); err != nil {
			return err
		}
		between = "\n"
	}
	return nil
}

func checkpointRow(c *Checkpoint) []string {
	v := c.View
	return []string{
		v.Namespace, v.Name, v.Status.Template.Name, string(v.Status.Position),
		statusOf(v, views.ConditionVerified), statusOf(v, views.ConditionAcknowledged),
		statusOf(v, views.ConditionIntended), statusOf(v, views.ConditionRecoverable),
		string(c.Verdict.Reason),
	}
}

func statusOf(v *views.RetainedCheckpoint, conditionType string) string {
	if condition := meta.FindStatusCondition(v.Status.Conditions, conditionType); condition != nil {
		return string(condition.Status)
	}
	return ""
}

func objectOf(a *checkpoint.ArtifactVerdict) string {
	if a.Object == "" {
		return ""
	}
	return objectName(a.Kind, a.Object)
}

// findingRow takes the object out of a message, which starts with it.
func findingRow(namespace string, f *checkpoint.Finding) []string {
	object, text, found := strings.Cut(f.Message, ": ")
	if !found || strings.ContainsAny(object, " \"") {
		object, text = "", f.Message
	}
	return []string{namespace, string(f.State), string(f.Reason), object, text}
}

func (t *table) print(out io.Writer) error {
	if t.title != "" {
		if _, err := fmt.Fprintln(out, t.title); err != nil {
			return err
		}
	}
	w := printers.GetNewTabWriter(out)
	for _, row := range append([][]string{t.header}, t.rows...) {
		if _, err := fmt.Fprintln(w, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

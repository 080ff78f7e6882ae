package inspect

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// ListFormats are what a list can be printed as.
var ListFormats = []string{"table", "wide", "json", "yaml", "name"}

// listColumns are those of the aggregated API, so that scripts and eyes need not
// know who answered.
var listColumns = []struct {
	name string
	wide bool
	cell func(v *views.RetainedCheckpoint) string
}{
	{"Name", false, func(v *views.RetainedCheckpoint) string { return v.Name }},
	{"Template", false, func(v *views.RetainedCheckpoint) string { return v.Status.Template.Name }},
	{"Checksum", false, func(v *views.RetainedCheckpoint) string { return v.Status.Checksum }},
	{"Position", false, func(v *views.RetainedCheckpoint) string { return string(v.Status.Position) }},
	{"Verified", false, func(v *views.RetainedCheckpoint) string { return statusOf(v, views.ConditionVerified) }},
	{"Recoverable", false, func(v *views.RetainedCheckpoint) string { return statusOf(v, views.ConditionRecoverable) }},
	{"Age", false, func(v *views.RetainedCheckpoint) string {
		return metatable.ConvertToHumanReadableDateType(v.CreationTimestamp)
	}},
	{"Plan", true, func(v *views.RetainedCheckpoint) string { return v.Status.PlanID }},
	{"Evidence", true, func(v *views.RetainedCheckpoint) string { return v.Status.Evidence }},
	{"Artifacts", true, verifiedOf},
	{"Reason", true, func(v *views.RetainedCheckpoint) string { return reasonOf(v, views.ConditionVerified) }},
	{"Blocked", true, func(v *views.RetainedCheckpoint) string { return reasonOf(v, views.ConditionRecoverable) }},
}

func reasonOf(v *views.RetainedCheckpoint, conditionType string) string {
	if condition := meta.FindStatusCondition(v.Status.Conditions, conditionType); condition != nil {
		return condition.Reason
	}
	return ""
}

func verifiedOf(v *views.RetainedCheckpoint) string {
	verified := 0
	for i := range v.Status.Artifacts {
		if v.Status.Artifacts[i].Verdict == string(checkpoint.Verified) {
			verified++
		}
	}
	return fmt.Sprintf("%d/%d", verified, len(v.Status.Artifacts))
}

// PrintList prints checkpoints alone, in one of ListFormats, and notices apart.
func (p *Printer) PrintList(report *Report, withNamespace bool) error {
	only := &Report{Checkpoints: report.Checkpoints, Notices: report.Notices}
	if p.Format != "table" && p.Format != "wide" {
		return p.Print(only)
	}
	if len(only.Checkpoints) > 0 {
		printer := printers.NewTablePrinter(printers.PrintOptions{WithNamespace: withNamespace, Wide: p.Format == "wide"})
		if err := printer.PrintObj(tableOf(only), p.Out); err != nil {
			return fmt.Errorf("printing the list: %w", err)
		}
	} else if _, err := fmt.Fprintln(p.ErrOut, "No checkpoints found."); err != nil {
		return err
	}
	return p.printNotices(report)
}

func tableOf(report *Report) *metav1.Table {
	t := &metav1.Table{}
	for _, column := range listColumns {
		definition := metav1.TableColumnDefinition{Name: column.name, Type: "string"}
		if column.wide {
			definition.Priority = 1
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions, definition)
	}
	for i := range report.Checkpoints {
		v := report.Checkpoints[i].View
		row := metav1.TableRow{Object: runtime.RawExtension{Object: v}}
		for _, column := range listColumns {
			row.Cells = append(row.Cells, printable(column.cell(v)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

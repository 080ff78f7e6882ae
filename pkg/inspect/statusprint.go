package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

// Print prints the status in one of DrillFormats.
func (s *Status) Print(out io.Writer, format string) error {
	switch format {
	case "table":
		return s.printTables(out)
	case "json":
		raw, err := json.MarshalIndent(s, "", "    ")
		if err != nil {
			return fmt.Errorf("printing the status: %w", err)
		}
		_, err = out.Write(append(escaped(raw), '\n'))
		return err
	}
	return fmt.Errorf("output format %q is none of %s", format, strings.Join(DrillFormats, ", "))
}

func (s *Status) printTables(out io.Writer) error {
	if len(s.Templates) == 0 {
		if _, err := io.WriteString(out, "No HAProxyTemplateConfig was found, so nothing is retained for anybody.\n"); err != nil {
			return err
		}
	}
	for i := range s.Templates {
		if i > 0 {
			if _, err := io.WriteString(out, "\n"); err != nil {
				return err
			}
		}
		if err := s.Templates[i].print(out); err != nil {
			return err
		}
	}
	notices := table{title: "\nNOTICES", header: []string{"NAMESPACE", "STATE", "REASON", "OBJECT", "FINDING"}}
	for i := range s.notices {
		notices.add(findingRow(s.notices[i].Namespace, &s.notices[i].Finding)...)
	}
	if len(notices.rows) == 0 {
		return nil
	}
	return notices.print(out)
}

// print prints the answer first: at night nobody reads on without a reason to.
func (t *TemplateStatus) print(out io.Writer) error {
	text := fmt.Sprintf("TEMPLATE %s in namespace %s: would replacement pods start now? %s\n", printable(t.Template), printable(t.Namespace), t.Answer)
	var advice []string
	for _, c := range t.Checks {
		if c.Result == Passed || c.Result == NotChecked {
			continue
		}
		text += fmt.Sprintf("  %s %s, %s: %s\n", printable(c.Name), strings.ToLower(string(c.Result)), printable(c.Reason), printable(c.Message))
		if c.Do != "" {
			advice = append(advice, fmt.Sprintf("  %s: %s\n", printable(c.Name), printable(c.Do)))
		}
	}
	if len(advice) > 0 {
		text += "WHAT TO DO\n" + strings.Join(advice, "")
	}
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	checks := table{header: []string{"CHECK", "RESULT", "FOUND"}}
	for _, c := range t.Checks {
		if c.Name == "intent" || c.Name == "fence" {
			checks.add(c.Name, string(c.Result), c.Message)
		}
	}
	checkpoints := table{header: []string{"CHECKPOINT", "POSITION", "VERIFIED", "ACKNOWLEDGED", "INTENDED"}}
	for _, v := range t.Checkpoints {
		checkpoints.add(v.Name, string(v.Status.Position), statusOf(v, views.ConditionVerified), statusOf(v, views.ConditionAcknowledged), statusOf(v, views.ConditionIntended))
	}
	pods := table{header: []string{"POD", "NODE", "READY", "LAST SEEN ON PLAN", "NOTE"}}
	for _, p := range t.Pods {
		ready := "False"
		if p.Ready {
			ready = "True"
		}
		pods.add(p.Name, p.Node, ready, p.Plan, p.Note)
	}
	for _, part := range []*table{&checks, &checkpoints, &pods} {
		if len(part.rows) == 0 {
			continue
		}
		if err := part.print(out); err != nil {
			return err
		}
	}
	return nil
}

package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// DrillFormats are what the report of a drill can be printed as.
var DrillFormats = []string{"table", "json"}

// Print prints the report in one of DrillFormats.
func (r *DrillReport) Print(out io.Writer, format string) error {
	switch format {
	case "table":
		return r.printTable(out)
	case "json":
		raw, err := json.MarshalIndent(r, "", "    ")
		if err != nil {
			return fmt.Errorf("printing the report: %w", err)
		}
		_, err = out.Write(append(escaped(raw), '\n'))
		return err
	}
	return fmt.Errorf("output format %q is none of %s", format, strings.Join(DrillFormats, ", "))
}

// printTable prints one row per check, then what to do, then the answer.
func (r *DrillReport) printTable(out io.Writer) error {
	checks := table{header: []string{"CHECK", "RESULT", "REASON", "FOUND"}}
	var advice []string
	for _, c := range r.Checks {
		checks.add(c.Name, string(c.Result), c.Reason, c.Message)
		if c.Do != "" {
			advice = append(advice, fmt.Sprintf("%s: %s", printable(c.Name), printable(c.Do)))
		}
	}
	if err := checks.print(out); err != nil {
		return err
	}
	text := "\n"
	if len(advice) > 0 {
		text += "WHAT TO DO\n" + strings.Join(advice, "\n") + "\n\n"
	}
	text += fmt.Sprintf("Would replacement pods of template %s in namespace %s start now? %s\n", r.Template, r.Namespace, r.Answer)
	if r.Answer == AnswerYes && len(r.Starts) > 0 {
		text += fmt.Sprintf("These wait for it: %s\n", printable(strings.Join(r.Starts, ", ")))
	}
	_, err := io.WriteString(out, text)
	return err
}

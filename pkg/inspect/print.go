package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

// Formats are what a report can be printed as.
var Formats = []string{"table", "json", "yaml", "name"}

// Printer prints reports.
type Printer struct {
	// Out takes the report, ErrOut what has no place in it.
	Out, ErrOut io.Writer
	Format      string
}

// Print prints a report. Only a table has room for notices.
func (p *Printer) Print(report *Report) error {
	var err error
	switch p.Format {
	case "table":
		return printTables(p.Out, report)
	case "json":
		err = printList(p.Out, report, func(raw []byte) ([]byte, error) { return append(raw, '\n'), nil })
	case "yaml":
		err = printList(p.Out, report, yaml.JSONToYAML)
	case "name":
		for _, object := range objectsOf(report) {
			if err == nil {
				err = (&printers.NamePrinter{}).PrintObj(object, p.Out)
			}
		}
	default:
		return fmt.Errorf("output format %q is none of %s", p.Format, strings.Join(Formats, ", "))
	}
	if err != nil {
		return fmt.Errorf("printing the report: %w", err)
	}
	return p.printNotices(report)
}

func (p *Printer) printNotices(report *Report) error {
	for _, n := range report.Notices {
		if _, err := fmt.Fprintf(p.ErrOut, "%s: %s: %s%s\n", n.State, n.Reason, inNamespace(n.Namespace), n.Message); err != nil {
			return err
		}
	}
	return nil
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return "namespace " + namespace + ": "
}

// objectsOf are the views as the API serves them: checkpoints, then intents.
func objectsOf(report *Report) []runtime.Object {
	objects := make([]runtime.Object, 0, len(report.Checkpoints)+len(report.Intents))
	for i := range report.Checkpoints {
		v := report.Checkpoints[i].View.DeepCopy()
		v.SetGroupVersionKind(views.SchemeGroupVersion.WithKind("RetainedCheckpoint"))
		objects = append(objects, v)
	}
	for _, intent := range report.Intents {
		v := intent.DeepCopy()
		v.SetGroupVersionKind(views.SchemeGroupVersion.WithKind("DeploymentIntent"))
		objects = append(objects, v)
	}
	return objects
}

// printList prints the views as one List, laid out like kubectl's.
func printList(out io.Writer, report *Report, encode func([]byte) ([]byte, error)) error {
	raw, err := json.MarshalIndent(listOf(report), "", "    ")
	if err != nil {
		return err
	}
	encoded, err := encode(escaped(raw))
	if err != nil {
		return err
	}
	_, err = out.Write(encoded)
	return err
}

// escaped is the JSON without characters that JSON may hold as they are, while
// YAML may not and terminals obey them. What is printed comes from the input.
func escaped(raw []byte) []byte {
	var out bytes.Buffer
	for _, r := range string(raw) {
		if r >= 0x7f && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&out, "\\u%04x", r)
			continue
		}
		out.WriteRune(r)
	}
	return out.Bytes()
}

func listOf(report *Report) *corev1.List {
	list := &corev1.List{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"},
		Items:    []runtime.RawExtension{},
	}
	for _, object := range objectsOf(report) {
		list.Items = append(list.Items, runtime.RawExtension{Object: object})
	}
	return list
}

// quoted is a value of the input as a message shows it.
func quoted(text string) string {
	const longest = 256
	return strconv.Quote(text[:min(len(text), longest)])
}

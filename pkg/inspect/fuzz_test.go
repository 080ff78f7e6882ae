package inspect

import (
	"bytes"
	"io"
	"testing"
)

// FuzzReadObjects feeds any bytes through reading, judging and printing.
func FuzzReadObjects(f *testing.F) {
	e := newExport(f)
	f.Add(e.yaml(f))
	f.Add(marshalJSON(f, map[string]any{"apiVersion": "v1", "kind": "List", "items": e.stored()}))
	for _, o := range e.stored() {
		f.Add(marshalYAML(f, o))
		f.Add(marshalJSON(f, o))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		files := Files{Paths: []string{"-"}, Stdin: bytes.NewReader(input), Namespace: namespace}
		inv, err := files.Read()
		if err != nil {
			return
		}
		report, err := Verify(inv)
		if err != nil {
			return
		}
		for _, format := range Formats {
			printer := Printer{Out: io.Discard, ErrOut: io.Discard, Format: format}
			if err := printer.Print(report); err != nil {
				t.Errorf("printing as %s: %v", format, err)
			}
		}
	})
}

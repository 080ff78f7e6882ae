package inspect

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestReportsArePrintedAsEver(t *testing.T) {
	sound, damaged := newExport(t), newExport(t)
	damaged.maps[0].Spec.Entries = "moved.example app\n"
	damaged.newest.Status.DeployedToPods = nil
	// The input of the plugin's own tests, and of the documentation's.
	golden(t, "sound.yaml", sound.yaml(t))
	golden(t, "damaged.yaml", damaged.yaml(t))
	for name, e := range map[string]*export{"sound": sound, "damaged": damaged} {
		report := mustVerify(t, e.yaml(t))
		for _, format := range Formats {
			t.Run(name+" as "+format, func(t *testing.T) {
				var out, errOut bytes.Buffer
				printer := Printer{Out: &out, ErrOut: &errOut, Format: format}
				if err := printer.Print(report); err != nil {
					t.Fatal(err)
				}
				golden(t, name+"."+format+".golden", append(out.Bytes(), errOut.Bytes()...))
			})
		}
	}
}

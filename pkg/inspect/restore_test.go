package inspect

import (
	"errors"
	"strings"
	"testing"
)

func inventoryOf(t *testing.T, e *export) *Inventory {
	t.Helper()
	files := Files{Paths: []string{"-"}, Stdin: strings.NewReader(string(e.yaml(t)))}
	inv, err := files.Read()
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

func restored(t *testing.T, inv *Inventory, which string) *Restored {
	t.Helper()
	r, err := inv.Restore(which)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDiffShowsTextAndHidesCertificates(t *testing.T) {
	e := newExport(t)
	inv := inventoryOf(t, e)
	older, newer := restored(t, inv, e.predecessor.Spec.Checksum[:12]), restored(t, inv, e.newest.Name)
	diff := Diff(older, newer)
	for _, want := range []string{"-old.example app", "+shop.example app", e.newest.Name + ":/etc/haproxy/maps/hosts.map"} {
		if !strings.Contains(diff, want) {
			t.Errorf("the diff lacks %q:\n%s", want, diff)
		}
	}
	if same := Diff(newer, newer); same != "" {
		t.Errorf("a checkpoint differs from itself:\n%s", same)
	}
	// Another certificate is told by its checksum alone.
	secret := &older.Output.Artifacts[len(older.Output.Artifacts)-1]
	for i := range older.Output.Artifacts {
		if isHidden(&older.Output.Artifacts[i]) {
			secret = &older.Output.Artifacts[i]
		}
	}
	if !isHidden(secret) {
		t.Fatal("the export has no certificate")
	}
	key := string(secret.Content)
	secret.Content = append([]byte("other\n"), secret.Content...)
	diff = Diff(older, newer)
	if !strings.Contains(diff, secret.Path+": changed from sha256:") {
		t.Errorf("the diff does not tell of %s:\n%s", secret.Path, diff)
	}
	for line := range strings.Lines(key) {
		if len(line) > 8 && strings.Contains(diff, strings.TrimSpace(line)) {
			t.Errorf("the diff shows %q", line)
		}
	}
	if _, err := newer.Text(secret.Path); err == nil || !strings.Contains(err.Error(), "not shown") {
		t.Errorf("a certificate's text: %v", err)
	}
	if text, err := newer.Text("/etc/haproxy/maps/hosts.map"); err != nil || string(text) != "shop.example app\n" {
		t.Errorf("the map's text is %q, %v", text, err)
	}
	if text, err := newer.Text(""); err != nil || string(text) != string(newer.Output.Configuration) {
		t.Errorf("the configuration is %q, %v", text, err)
	}
}

func TestOnlyOneVerifiedCheckpointIsRestored(t *testing.T) {
	e := newExport(t)
	inv := inventoryOf(t, e)
	for _, which := range []string{"", "none"} {
		if _, err := inv.Restore(which); !errors.Is(err, ErrWhichCheckpoint) {
			t.Errorf("%q is answered by %v", which, err)
		}
	}
	e.newest.Spec.Content += "# tampered\n"
	if _, err := inventoryOf(t, e).Restore(e.newest.Name); err == nil || !strings.Contains(err.Error(), "cannot be restored") {
		t.Errorf("a damaged checkpoint is answered by %v", err)
	}
}

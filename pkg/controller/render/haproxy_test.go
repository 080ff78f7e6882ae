package render

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// checkWithHAProxy lays an output out as an agent does and lets the real binary
// judge it. It returns the folder.
func checkWithHAProxy(t *testing.T, out *checkpoint.Output) string {
	t.Helper()
	binary, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("needs the haproxy binary")
	}
	dir := t.TempDir()
	files := map[string][]byte{out.ConfigurationPath: out.Configuration}
	for _, a := range out.Artifacts {
		files[a.RuntimePath] = a.Content
	}
	for path, content := range files {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), binary, "-c", "-dr", "-f", filepath.Join(dir, out.ConfigurationPath))
	cmd.Dir, cmd.Env = "/", []string{"POD_IP=127.0.0.1"}
	answer, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("haproxy refuses the output: %v\n%s\n%s", err, answer, out.Configuration)
	}
	t.Logf("haproxy: %s", answer)
	return dir
}

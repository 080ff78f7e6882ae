package alerts

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// shipped is as much of a PrometheusRule as is looked at.
type shipped struct {
	Spec struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string            `json:"alert,omitempty"`
				Expr        string            `json:"expr"`
				For         string            `json:"for,omitempty"`
				Labels      map[string]string `json:"labels,omitempty"`
				Annotations map[string]string `json:"annotations,omitempty"`
			} `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

func rules(t *testing.T) *shipped {
	t.Helper()
	raw, err := os.ReadFile("../../manifests/components/monitoring/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var found shipped
	if err := yaml.Unmarshal(raw, &found); err != nil {
		t.Fatal(err)
	}
	return &found
}

// TestAlertsFireAndStaySilent runs the rules over series that are made up.
func TestAlertsFireAndStaySilent(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: hack/install-deps.sh gets it where it can")
	}
	folder := t.TempDir()
	raw, err := yaml.Marshal(rules(t).Spec)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"rules.yaml": raw, "alerts.yaml": tests} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), promtool, "test", "rules", "alerts.yaml")
	command.Dir = folder
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

// TestEachAlertIsTestedAndEachMetricExists: an alert that nobody tested, or over a
// number that nobody tells, would never fire and never be missed.
func TestEachAlertIsTestedAndEachMetricExists(t *testing.T) {
	tests, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	metric := regexp.MustCompile(`\b(?:holdfast|haptic)_[a-z_]+`)
	// A declaration names what follows namespace and subsystem.
	prefix := regexp.MustCompile(`^holdfast_(?:apiserver|controller)_`)
	told := sources(t)
	for _, group := range rules(t).Spec.Groups {
		for _, rule := range group.Rules {
			text := string(tests)
			if !regexp.MustCompile(`alertname: ` + rule.Alert + `\n\s+exp_alerts:\n`).MatchString(text) {
				t.Errorf("alert %s fires in no test", rule.Alert)
			}
			if !strings.Contains(text, "alertname: "+rule.Alert+", exp_alerts: []") {
				t.Errorf("alert %s stays silent in no test", rule.Alert)
			}
			for _, name := range metric.FindAllString(rule.Expr, -1) {
				if !strings.Contains(told, `"`+prefix.ReplaceAllString(name, "")+`"`) {
					t.Errorf("alert %s is over %s, which nothing tells", rule.Alert, name)
				}
			}
		}
	}
}

// sources is the text of the files that declare metrics.
func sources(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	err := filepath.WalkDir("../../pkg", func(path string, entry os.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "metrics.go" {
			return err
		}
		raw, err := os.ReadFile(path)
		text.Write(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

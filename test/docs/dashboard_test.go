package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-project/holdfast/pkg/controller"
	"github.com/holdfast-project/holdfast/pkg/controller/election"
	"github.com/holdfast-project/holdfast/pkg/controller/httpsource"
	"github.com/holdfast-project/holdfast/pkg/controller/publish"
	"github.com/holdfast-project/holdfast/pkg/controller/recovery"
	"github.com/holdfast-project/holdfast/pkg/viewfeed"
)

const monitoring = "../../manifests/components/monitoring/"

// describer is a registerer that notes the whole names of what is registered. A
// registry would tell of a vector only what has been counted.
type describer struct {
	names map[string]bool
}

var (
	fullName  = regexp.MustCompile(`fqName: "([^"]+)"`)
	histogram = []string{"_bucket", "_sum", "_count"}
)

func (d *describer) Register(c prometheus.Collector) error {
	described := make(chan *prometheus.Desc, 16)
	go func() { defer close(described); c.Describe(described) }()
	_, isHistogram := c.(prometheus.Histogram)
	for desc := range described {
		name := fullName.FindStringSubmatch(desc.String())[1]
		d.names[name] = !isHistogram
		for _, suffix := range histogram {
			d.names[name+suffix] = isHistogram
		}
	}
	return nil
}

func (d *describer) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := d.Register(c); err != nil {
			panic(err)
		}
	}
}

func (d *describer) Unregister(prometheus.Collector) bool { return false }

// told are the metrics of all binaries, by the names under which they are scraped.
func told(t *testing.T) map[string]bool {
	t.Helper()
	d := &describer{names: map[string]bool{}}
	controller.NewMetrics(d)
	election.NewMetrics(d)
	httpsource.NewMetrics(d)
	publish.NewMetrics(d)
	recovery.NewMetrics(d)
	viewfeed.NewMetrics(d)
	// Those of agents are made inside their package.
	raw, err := os.ReadFile("../../pkg/agent/server/metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	agents := regexp.MustCompile(`(?:counter|gauge)\("([a-z_]+)"`).FindAllStringSubmatch(string(raw), -1)
	if len(agents) < 8 || !strings.Contains(string(raw), `Namespace: "holdfast", Subsystem: "agent"`) {
		t.Fatalf("the agent's metrics are declared in another way: %v", agents)
	}
	for _, match := range agents {
		d.names["holdfast_agent_"+match[1]] = true
	}
	return d.names
}

// panel is as much of a dashboard as is looked at.
type panel struct {
	ID      int    `json:"id"`
	Title   string `json:"title"`
	Type    string `json:"type"`
	GridPos struct{ X, Y, W, H int }
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
}

func panels(t *testing.T) []panel {
	t.Helper()
	raw, err := os.ReadFile(monitoring + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []panel `json:"panels"`
	}
	if err := json.Unmarshal(raw, &dashboard); err != nil {
		t.Fatal(err)
	}
	return dashboard.Panels
}

// TestTheDashboardShowsWhatIsTold: every metric that is shown is registered by some
// binary under its whole name.
func TestTheDashboardShowsWhatIsTold(t *testing.T) {
	exists, ids := told(t), map[int]bool{}
	name := regexp.MustCompile(`\b(?:holdfast|haptic)_[a-z_]+`)
	queries := 0
	for _, p := range panels(t) {
		if ids[p.ID] {
			t.Errorf("two panels have ID %d", p.ID)
		}
		ids[p.ID] = true
		if p.GridPos.X+p.GridPos.W > 24 || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q is too wide or asks nothing", p.Title)
		}
		for _, target := range p.Targets {
			queries++
			found := name.FindAllString(target.Expr, -1)
			if len(found) == 0 {
				t.Errorf("panel %q asks for none of our metrics: %s", p.Title, target.Expr)
			}
			for _, metric := range found {
				if !exists[metric] {
					t.Errorf("panel %q shows %s, which nothing tells", p.Title, metric)
				}
			}
		}
	}
	if queries < 20 {
		t.Errorf("only %d queries were found", queries)
	}
}

// TestQueriesOfTheDashboardParse, with Prometheus's own tool.
func TestQueriesOfTheDashboardParse(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: hack/install-deps.sh gets it where it can")
	}
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	known := strings.NewReplacer("$__rate_interval", "5m", "$namespace", ".*")
	for _, p := range panels(t) {
		for i, target := range p.Targets {
			rules = append(rules, rule{fmt.Sprintf("panel_%d_%d", p.ID, i), known.Replace(target.Expr)})
		}
	}
	raw, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

// TestGrafanaFindsTheDashboard by the label that its sidecar looks for.
func TestGrafanaFindsTheDashboard(t *testing.T) {
	raw, err := os.ReadFile(monitoring + "kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var component struct {
		ConfigMapGenerator []struct {
			Files   []string `json:"files"`
			Options struct {
				Labels map[string]string `json:"labels"`
			} `json:"options"`
		} `json:"configMapGenerator"`
	}
	if err := yaml.Unmarshal(raw, &component); err != nil {
		t.Fatal(err)
	}
	maps := component.ConfigMapGenerator
	if len(maps) != 1 || maps[0].Options.Labels["grafana_dashboard"] != "1" || len(maps[0].Files) != 1 || maps[0].Files[0] != "holdfast.json=dashboard.json" {
		t.Errorf("the ConfigMaps are %+v", maps)
	}
}

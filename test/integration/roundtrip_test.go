package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	stored "github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller/publish"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

const (
	roundTrip = "roundtrip"
	// packFrom is the compression threshold of the round trip: long files are
	// stored compressed, short ones plain.
	packFrom = 200
)

// The demo's template writes three families. Everything else that the stored
// form knows is published here, by the publisher itself.
func TestRoundTripOfEveryFamilyVerifiesThroughTheAPIAndOffline(t *testing.T) {
	template, clients := createTemplate(t)
	o := everyFamily(t)
	publishOutput(t, publish.Settings{
		Template:             checkpoint.Template{Namespace: fleet, Name: roundTrip, UID: string(template.UID)},
		CompressionThreshold: packFrom,
	}, clients, o)

	var found *views.RetainedCheckpoint
	eventually(t, "the API shows the checkpoint, promoted, acknowledged and verified", func(ctx context.Context) error {
		items, err := checkpoints(ctx)
		if err != nil {
			return err
		}
		for i := range items {
			if found = &items[i]; found.Status.Template.Name == roundTrip {
				return errors.Join(
					wantCondition(found.Status.Conditions, views.ConditionVerified, metav1.ConditionTrue),
					wantCondition(found.Status.Conditions, views.ConditionPromoted, metav1.ConditionTrue),
					wantCondition(found.Status.Conditions, views.ConditionAcknowledged, metav1.ConditionTrue))
			}
		}
		return fmt.Errorf("none of %d checkpoints is of template %s", len(items), roundTrip)
	})
	want, got := map[string]string{}, map[string]string{}
	for _, a := range o.Artifacts {
		want[a.Path] = a.Family.String() + " " + checkpoint.FileChecksum(a.Content)
	}
	for _, a := range found.Status.Artifacts {
		got[a.Path] = a.Family + " " + a.Checksum
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("artifacts (-published +shown):\n%s", diff)
	}

	file := exportThatAgrees(t)
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"\n    empty: true\n", "\n    compressed: true\n", "\n      haproxy-haptic.org/compressed: \"true\"\n", "\n    caFile: true\n"} {
		if !strings.Contains(string(raw), form) {
			t.Errorf("the export holds no object with %q", strings.TrimSpace(form))
		}
	}
	if rows := verifyFile(t, file, "name").stdout; !strings.Contains(rows, found.Name) {
		t.Errorf("the offline verifier does not list %s:\n%s", found.Name, rows)
	}
}

// createTemplate makes a template that nobody renders and no pod belongs to.
func createTemplate(t *testing.T) (*stored.HAProxyTemplateConfig, publish.Clients) {
	t.Helper()
	out, err := cluster(t.Context(), "env").Output()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := ""
	for line := range strings.Lines(string(out)) {
		if quoted, ok := strings.CutPrefix(strings.TrimSpace(line), "export KUBECONFIG="); ok {
			if kubeconfig, err = strconv.Unquote(quoted); err != nil {
				t.Fatal(err)
			}
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	haptic, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	template, err := haptic.HapticV1alpha1().HAProxyTemplateConfigs(fleet).Create(t.Context(), &stored.HAProxyTemplateConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: roundTrip},
		Spec: stored.HAProxyTemplateConfigSpec{
			PodSelector:   stored.PodSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "nothing-has-this"}},
			HAProxyConfig: stored.Template{Template: "global\n"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deleteTemplate(t) })
	return template, publish.NewClients(haptic, core, fleet)
}

// deleteTemplate waits until all that was stored for the template went with it,
// and until no view of it is left: other tests count them.
func deleteTemplate(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), settle)
	defer cancel()
	if _, err := tryKube(ctx, "-n", fleet, "delete", "htplcfg", roundTrip, "--cascade=foreground", "--timeout=60s"); err != nil {
		t.Error(err)
	}
	for {
		left, err := tryKube(ctx, "get", "rckpt,deploymentintents", "-n", fleet, "-o", "name")
		if err == nil && !strings.Contains(left, roundTrip) {
			return
		}
		if ctx.Err() != nil {
			t.Errorf("views of a deleted template are left: %s, %v", left, err)
			return
		}
	}
}

// agreement is a term that nobody contests.
type agreement struct{ intent fencing.Intent }

func (agreement) Check(context.Context) error                      { return nil }
func (a agreement) Intent(context.Context) (fencing.Intent, error) { return a.intent, nil }

// publishOutput publishes, and keeps doing so, until the test ends.
func publishOutput(t *testing.T, settings publish.Settings, clients publish.Clients, o *checkpoint.Output) {
	t.Helper()
	p := publish.New(settings, clients, agreement{fencing.Intent{
		UID: settings.Template.UID, Epoch: 1, PlanID: o.Plan.ID, Checksum: o.Checksum(),
	}}, publish.NewMetrics(prometheus.NewRegistry()))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	p.Accepted(o, 1)
	p.Deployed(o, 1, checkpoint.PodEntry{
		PodName: "roundtrip-0", PodUID: "0f0e6c52-1111-4222-8333-444455556666", PodRuntimeID: "run-1", Checksum: o.Checksum(),
		AppliedPlanID: o.Plan.ID, RunningPlanID: o.Plan.ID, Mode: stored.ModeReload,
	})
}

// everyFamily is an output with a file of each family: plain, compressed, empty.
func everyFamily(t *testing.T) *checkpoint.Output {
	t.Helper()
	long := func(line string) string { return strings.Repeat(line+"\n", 20) }
	configuration := "global\n    log stdout format raw local0\n" + long("# a configuration that is worth compressing")
	o := &checkpoint.Output{
		ConfigurationPath: "/etc/haproxy/haproxy.cfg", Configuration: []byte(configuration),
		Backends: map[string]checkpoint.BackendText{},
	}
	add := func(family checkpoint.Family, file, content string) {
		d := checkpoint.Descriptor{Family: family, Path: "/etc/haproxy/" + file, RuntimePath: file, Name: filepath.Base(file)}
		if family == checkpoint.Map {
			d.Name = d.Path
		}
		o.Artifacts = append(o.Artifacts, checkpoint.Artifact{Descriptor: d, Content: []byte(content)})
	}
	add(checkpoint.Map, "maps/long.map", long("shop.example backend-of-the-shop"))
	add(checkpoint.Map, "maps/none.map", "")
	add(checkpoint.General, "general/503.http", "HTTP/1.0 503 Service Unavailable\r\n\r\n")
	add(checkpoint.General, "general/empty.http", "")
	add(checkpoint.Certificate, "ssl/site.pem", "a certificate with its key would stand here\n")
	add(checkpoint.CA, "ssl/clients-ca.pem", long("a CA that signs clients would stand here"))
	add(checkpoint.CRTList, "ssl/list.txt", "/etc/haproxy/ssl/site.pem site.example\n")
	add(checkpoint.GeneralCA, "general/bundle.pem", "a bundle would stand here\n")
	o.SortArtifacts()

	file := func(path, kind string, content []byte) plan.File {
		return plan.File{Path: path, Kind: kind, Digest: plan.Digest(content), Size: int64(len(content))}
	}
	o.Plan = &plan.Plan{
		SchemaVersion: plan.SchemaVersion,
		Sections:      []plan.Section{{Kind: plan.SectionCore, TextDigest: plan.DigestString(configuration), Length: int64(len(configuration))}},
		Backends:      map[string]plan.Backend{}, Profiles: map[string]plan.Profile{}, Maps: map[string]plan.Map{},
		Files: []plan.File{file(plan.ConfigPath, plan.FileConfig, o.Configuration)},
	}
	for _, a := range o.Artifacts {
		o.Plan.Files = append(o.Plan.Files, file(a.RuntimePath, a.Family.FileKind(), a.Content))
		if a.Family == checkpoint.Map {
			o.Plan.Maps[a.RuntimePath] = plan.Map{Path: a.RuntimePath, Entries: plan.MapEntries(a.Content)}
		}
	}
	var err error
	if o.Plan.ID, err = o.Plan.ComputeID(); err != nil {
		t.Fatal(err)
	}
	return o
}

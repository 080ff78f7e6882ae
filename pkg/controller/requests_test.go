package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller/election"
	"github.com/holdfast-project/holdfast/pkg/controller/publish"
	"github.com/holdfast-project/holdfast/pkg/controller/render"
	"github.com/holdfast-project/holdfast/test/fakeapi"
)

func text(r fakeapi.Request) string {
	return strings.TrimRight(strings.Join([]string{r.Verb, r.Resource, r.Name, r.Subresource}, " "), " ")
}

// An installation at rest costs the API server Lease renewals and reads.
func TestAnIdleHourWritesNothingButRenewals(t *testing.T) {
	install(t, func(t *testing.T, in *installation) {
		in.addPod()
		in.addPod()
		in.set(version(1))
		in.start("c1")
		in.start("c2")
		pass(5 * time.Minute)
		in.server.ResetRequests()
		pass(time.Hour)
		writes, writers := map[string]int{}, map[string]bool{}
		for _, r := range in.server.Requests() {
			if r.Writes() {
				writes[text(r)]++
				writers[r.Client] = true
			}
		}
		renewals := writes["update leases web-leader"]
		delete(writes, "update leases web-leader")
		if diff := cmp.Diff(map[string]int{}, writes); diff != "" {
			t.Errorf("writes beside renewals (-want +got):\n%s", diff)
		}
		// One each retry period, which is two seconds.
		if renewals < 1500 || renewals > 1801 || len(writers) != 1 {
			t.Errorf("%d renewals in an hour by %d processes", renewals, len(writers))
		}
	})
}

// leading is a leader that only does what a test asks for.
type leading struct {
	do func(ctx context.Context, term *election.Term)
}

func (leading) Announce(context.Context, uint64) []uint64    { return nil }
func (leading) Drain(context.Context, *election.Term)        {}
func (l leading) Lead(ctx context.Context, t *election.Term) { l.do(ctx, t) }

// lead makes the client win a term for the template and do something in it.
func (in *installation) lead(client string, do func(ctx context.Context, term *election.Term)) {
	in.t.Helper()
	template, err := in.haptic.HapticV1alpha1().HAProxyTemplateConfigs(namespace).Get(in.t.Context(), tplName, metav1.GetOptions{})
	in.must(err)
	config := in.server.Config(client)
	core, haptic := kubernetes.NewForConfigOrDie(config), versioned.NewForConfigOrDie(config)
	ctx, stop := context.WithCancel(in.t.Context())
	defer stop()
	e, err := election.New(election.SettingsFor(template, client),
		core.CoordinationV1().Leases(namespace), haptic.HapticV1alpha1().HAProxyTemplateConfigs(namespace),
		leading{func(ctx context.Context, term *election.Term) {
			do(ctx, term)
			stop()
		}}, election.NewMetrics(prometheus.NewRegistry()))
	in.must(err)
	in.must(e.Run(ctx))
}

func TestAnIntentIsRecordedWithTwoReadsAndOneReadModifyWrite(t *testing.T) {
	install(t, func(t *testing.T, in *installation) {
		in.set(version(1))
		in.lead("c1", func(ctx context.Context, term *election.Term) {
			// The elector renews once as soon as it leads, and next in two seconds.
			pass(time.Second)
			for _, plan := range []string{"0000000000000001", "0000000000000002"} {
				in.server.ResetRequests()
				if err := term.Record(ctx, plan, plan); err != nil {
					t.Error(err)
				}
				var asked []string
				for _, r := range in.server.Requests() {
					asked = append(asked, text(r))
				}
				want := []string{
					"get leases web-leader",
					"get leases " + retainedName, "update leases " + retainedName,
					"get leases web-leader",
				}
				if diff := cmp.Diff(want, asked); diff != "" {
					t.Errorf("recording %s (-want +got):\n%s", plan, diff)
				}
			}
		})
	})
}

// many is a template with ten maps and ten files, of which that many of each
// carry the version.
func many(v, changed int) v1alpha1.HAProxyTemplateConfigSpec {
	spec := version(v)
	spec.Maps, spec.Files = map[string]v1alpha1.Template{}, map[string]v1alpha1.Template{}
	for i := range 10 {
		name, content := string(rune('a'+i)), "same x\n"
		if i < changed {
			content = spec.HAProxyConfig.Template
		}
		spec.Maps[name+".map"] = v1alpha1.Template{Template: name + content}
		spec.Files[name+".http"] = v1alpha1.Template{Template: name + content}
	}
	// The ordinary output is out before the receipt's checkpoint is due.
	spec.Dataplane.ConfigPublishInterval = &metav1.Duration{Duration: 10 * time.Second}
	return spec
}

// costs are the requests of a checkpoint's publication.
type costs struct {
	Writes, Deletes, Lists, ChildReads int
}

// checkpointCosts counts what was asked, but of Leases.
func checkpointCosts(requests []fakeapi.Request) (c costs) {
	lists := map[string]int{}
	for _, r := range requests {
		child := r.Resource != "haproxycfgs"
		switch {
		case r.Resource == "leases" || r.Verb == "watch":
		case r.Verb == "get" && child:
			c.ChildReads++
		case r.Verb == "list" && child:
			lists[r.Resource]++
		case r.Verb == "delete":
			c.Deletes++
		case r.Writes():
			c.Writes++
		}
	}
	for _, n := range lists {
		c.Lists = max(c.Lists, n)
	}
	return c
}

// The publisher of a real term, counted by the server: a checkpoint that needs k
// of its n files created costs k + 4 creates and updates at most.
func TestACheckpointIsPublishedWithTheFewestRequests(t *testing.T) {
	const interval = 10 * time.Second
	steps := []struct {
		name string
		spec v1alpha1.HAProxyTemplateConfigSpec
		// k files are new, of twenty and a certificate.
		k, deletes int
	}{
		{name: "the first", spec: many(1, 3), k: 21},
		{name: "three maps and three files changed", spec: many(2, 3), k: 6},
		{name: "a third output, so that the first is collected", spec: many(3, 3), k: 6, deletes: 7},
		{name: "those files as all the others", spec: many(4, 0), k: 6, deletes: 7},
		{name: "only the configuration changed", spec: many(5, 0), deletes: 7},
	}
	install(t, func(t *testing.T, in *installation) {
		in.set(many(1, 3))
		in.lead("c1", func(ctx context.Context, term *election.Term) {
			p, stop := in.publisher(ctx, "c1", term)
			defer stop()
			for i, step := range steps {
				output, sequence := outputOf(t, step.spec), uint64(i+1)
				if err := term.Record(ctx, output.Plan.ID, output.Checksum()); err != nil {
					t.Error(err)
				}
				p.Accepted(output, sequence)
				pass(interval)
				in.server.ResetRequests()
				p.Deployed(output, sequence, receiptOf(output))
				pass(interval - time.Second)
				got := checkpointCosts(in.server.Requests())
				if got.Writes > step.k+4 || got.Lists > 2 || got.ChildReads > 0 || got.Deletes != step.deletes {
					t.Errorf("%s: %+v, want at most %d writes, 2 lists of a kind, no read of a file and %d deletions",
						step.name, got, step.k+4, step.deletes)
				}
				if in.newest().Checksum != output.Checksum() {
					t.Errorf("%s: the checkpoint was not promoted", step.name)
				}
				pass(time.Second)
			}
		})
	})
}

// publisher runs the publisher of a term.
func (in *installation) publisher(ctx context.Context, client string, term *election.Term) (p *publish.Publisher, stop func()) {
	in.t.Helper()
	template, err := in.haptic.HapticV1alpha1().HAProxyTemplateConfigs(namespace).Get(ctx, tplName, metav1.GetOptions{})
	in.must(err)
	config := in.server.Config(client)
	clients := publish.NewClients(versioned.NewForConfigOrDie(config), kubernetes.NewForConfigOrDie(config), namespace)
	p = publish.New(publish.SettingsFor(template), clients, term, publish.NewMetrics(prometheus.NewRegistry()))
	running, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(running)
	}()
	return p, func() {
		cancel()
		<-ended
	}
}

// outputOf renders a template without inputs.
func outputOf(t *testing.T, spec v1alpha1.HAProxyTemplateConfigSpec) *checkpoint.Output {
	t.Helper()
	renderer, err := render.Compile(&v1alpha1.HAProxyTemplateConfig{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	output, err := renderer.Render(t.Context(), render.Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	return output
}

func receiptOf(o *checkpoint.Output) checkpoint.PodEntry {
	return checkpoint.PodEntry{
		PodName: "p1", PodUID: "p1-uid", PodRuntimeID: "1-1", Checksum: o.Checksum(),
		AppliedPlanID: o.Plan.ID, RunningPlanID: o.Plan.ID, Mode: v1alpha1.ModeReload,
	}
}

package publish

import (
	"context"
	"errors"
	"math/rand/v2"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/plan"
	"github.com/holdfast-project/holdfast/pkg/record"
)

var ordinaryKey = objectKey{kind: v1alpha1.KindCfg, name: "web-haproxycfg"}

func testSettings() Settings {
	return settingsOf(checkpoint.Template{Namespace: namespace, Name: "web", UID: "t-uid"})
}

func settingsOf(template checkpoint.Template) Settings {
	return Settings{Template: template, CompressionThreshold: defaultThreshold, Interval: 10 * time.Second}
}

// fence is a term that a test can end. It counts its checks.
type fence struct {
	mu     sync.Mutex
	checks int
	// endAt ends the term at that check, 0 never.
	endAt  int
	intent fencing.Intent
}

func (f *fence) Check(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.checks++; f.endAt > 0 && f.checks >= f.endAt {
		return fencing.ErrFenced
	}
	return nil
}

func (f *fence) Intent(ctx context.Context) (fencing.Intent, error) {
	if err := f.Check(ctx); err != nil {
		return fencing.Intent{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.intent, nil
}

func (f *fence) set(change func(*fence)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// output makes an output of a configuration and files by path, a map of
// contents. The folder decides the family.
func output(t testing.TB, configuration string, files map[string]string) *checkpoint.Output {
	t.Helper()
	o := &checkpoint.Output{
		ConfigurationPath: "haproxy.cfg", Configuration: []byte(configuration),
		Backends: map[string]checkpoint.BackendText{},
	}
	for file, content := range files {
		d := checkpoint.Descriptor{Family: familyOf(file), Name: file, Path: file, RuntimePath: file}
		if d.Family != checkpoint.Map {
			d.Name = path.Base(file)
		}
		o.Artifacts = append(o.Artifacts, checkpoint.Artifact{Descriptor: d, Content: []byte(content)})
	}
	o.SortArtifacts()
	p := &plan.Plan{
		SchemaVersion: plan.SchemaVersion,
		Sections: []plan.Section{{
			Kind: plan.SectionCore, TextDigest: plan.Digest(o.Configuration), Length: int64(len(configuration)),
		}},
		Backends: map[string]plan.Backend{}, Profiles: map[string]plan.Profile{}, Maps: map[string]plan.Map{},
		Files: []plan.File{{
			Path: plan.ConfigPath, Kind: plan.FileConfig, Digest: plan.Digest(o.Configuration), Size: int64(len(configuration)),
		}},
	}
	for _, a := range o.Artifacts {
		if a.Family == checkpoint.Map {
			p.Maps[a.Path] = plan.Map{Path: a.Path, Entries: plan.MapEntries(a.Content)}
		}
		p.Files = append(p.Files, plan.File{
			Path: a.RuntimePath, Kind: a.Family.FileKind(), Digest: plan.Digest(a.Content), Size: int64(len(a.Content)),
		})
	}
	id, err := p.ComputeID()
	if err != nil {
		t.Fatal(err)
	}
	p.ID = id
	o.Plan = p
	return o
}

func familyOf(file string) checkpoint.Family {
	switch path.Dir(file) {
	case "maps":
		return checkpoint.Map
	case "ssl":
		return checkpoint.Certificate
	case "ca":
		return checkpoint.CA
	case "lists":
		return checkpoint.CRTList
	default:
		return checkpoint.General
	}
}

// site is an output with one file of each kind; its map and configuration carry
// the version.
func site(t testing.TB, version string) *checkpoint.Output {
	return output(t, "# "+version+"\nglobal\n", map[string]string{
		"maps/hosts.map": "host-" + version + " backend\n", "ssl/site.pem": "certificate", "ca/root.pem": "authority",
		"lists/all.txt": "ssl/site.pem\n", "files/503.http": "",
	})
}

func entryFor(o *checkpoint.Output, pod string) checkpoint.PodEntry {
	return checkpoint.PodEntry{
		PodName: pod, PodUID: pod + "-uid", PodRuntimeID: "1-1", Checksum: o.Checksum(),
		AppliedPlanID: o.Plan.ID, RunningPlanID: o.Plan.ID, Mode: v1alpha1.ModeReload,
	}
}

type noRegistry struct{}

func (noRegistry) Register(prometheus.Collector) error  { return nil }
func (noRegistry) MustRegister(...prometheus.Collector) {}
func (noRegistry) Unregister(prometheus.Collector) bool { return true }

func quiet() context.Context { return klog.NewContext(context.Background(), logr.Discard()) }

func newPublisher(a *server, f *fence) *Publisher {
	return New(settingsOf(a.web), a.clients("controller"), f, NewMetrics(noRegistry{}))
}

func (p *Publisher) outputNow(t testing.TB, o *checkpoint.Output) error {
	t.Helper()
	e, err := p.prepare(o)
	must(t, err)
	_, err = p.publishOrdinary(quiet(), e)
	return err
}

func receiptFor(o *checkpoint.Output, pod string, sequence uint64) receipt {
	return receipt{
		output: o, key: outputKey{o.Plan.ID, o.Checksum()}, sequence: sequence, entry: entryFor(o, pod),
	}
}

// checkpointNow publishes as a later render than any before.
func (p *Publisher) checkpointNow(t testing.TB, o *checkpoint.Output) error {
	t.Helper()
	e, err := p.prepare(o)
	must(t, err)
	p.mu.Lock()
	var sequence uint64
	for _, known := range p.receipts.order {
		sequence = max(sequence, known)
	}
	p.mu.Unlock()
	_, err = p.publishCheckpoint(quiet(), receiptFor(o, "pod-1", sequence+1), e)
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pointers verifies every committed pointer as an independent reader would, and
// gives their checksums.
func pointers(t testing.TB, a *server) []string {
	t.Helper()
	same := func(cfg *v1alpha1.HAProxyCfg) *v1alpha1.HAProxyCfg { return cfg }
	outputs := map[string]*v1alpha1.HAProxyCfg{}
	for _, o := range a.Objects(resources[v1alpha1.KindCfg].Resource) {
		cfg := madeOnce(a, v1alpha1.KindCfg, o, same)
		outputs[cfg.Name] = cfg
	}
	if outputs[ordinaryKey.name] == nil {
		return nil
	}
	committed, _ := record.Ordinary(outputs[ordinaryKey.name])
	children := a.children()
	var checksums []string
	for _, pointer := range committed {
		checksums = append(checksums, pointer.Checksum)
		cfg := outputs[pointer.Name]
		if cfg == nil {
			t.Errorf("pointer %s names a checkpoint that does not exist", pointer.Name)
			continue
		}
		verdict, _ := checkpoint.Verify(a.web, record.Checkpoint(cfg), children, &pointer)
		if verdict.State != checkpoint.Verified || !verdict.Acknowledged {
			t.Errorf("pointer %s: %s %s %s, acknowledged %v", pointer.Name, verdict.State, verdict.Reason, verdict.Message, verdict.Acknowledged)
		}
	}
	return checksums
}

var errDown = errors.New("down")

// noise does not compress.
func noise(size int) string {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, size)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/"[r.IntN(64)]
	}
	return string(b)
}

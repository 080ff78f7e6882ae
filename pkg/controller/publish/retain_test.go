package publish

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

// published is an API with an ordinary output and one promoted checkpoint of it.
func published(t testing.TB, f *fence, versions ...string) (*server, *Publisher) {
	t.Helper()
	api := newAPI(t)
	p := newPublisher(api, f)
	for _, version := range versions {
		must(t, p.outputNow(t, site(t, version)))
		must(t, p.checkpointNow(t, site(t, version)))
	}
	api.took()
	return api, p
}

func checksums(t testing.TB, versions ...string) []string {
	t.Helper()
	var sums []string
	for _, version := range versions {
		sums = append(sums, site(t, version).Checksum())
	}
	return sums
}

func wantPointers(t testing.TB, api *server, versions ...string) {
	t.Helper()
	if diff := cmp.Diff(checksums(t, versions...), pointers(t, api)); diff != "" {
		t.Errorf("pointers (-want +got):\n%s", diff)
	}
}

func TestAnIdenticalReceiptWritesNothing(t *testing.T) {
	t.Parallel()
	api, p := published(t, &fence{}, "a", "b")
	must(t, p.checkpointNow(t, site(t, "b")))
	for _, r := range api.took() {
		if r.writes() {
			t.Errorf("wrote %+v", r)
		}
	}
}

// Publication of b is interrupted at its nth write, for every n: refused, or
// done with its reply lost. What is committed then must be usable, and the next
// attempt must finish.
func TestInterruptedAtAnyWriteThePointersStayUsable(t *testing.T) {
	t.Parallel()
	step := 1
	if thin {
		step = 4
	}
	for _, lost := range []bool{false, true} {
		for n := 1; ; n += step {
			f := &fence{}
			api, p := published(t, f, "z", "a")
			writes, failed := 0, false
			interrupt := func(r request) error {
				if !r.writes() {
					return nil
				}
				if writes++; writes == n {
					failed = true
					return apierrors.NewInternalError(errDown)
				}
				return nil
			}
			if lost {
				api.hooks(nil, interrupt)
			} else {
				api.hooks(interrupt, nil)
			}
			err := errors.Join(p.outputNow(t, site(t, "b")), p.checkpointNow(t, site(t, "b")))
			api.hooks(nil, nil)
			if !failed {
				if n < 9 {
					t.Errorf("only %d writes were interrupted", n-1)
				}
				break
			}
			if err == nil {
				t.Errorf("write %d failed (lost %v) and publication succeeded", n, lost)
			}
			if got := pointers(t, api); len(got) < 2 {
				t.Errorf("after write %d (lost %v): pointers %v", n, lost, got)
			}
			// The next leader starts with nothing in memory.
			p = newPublisher(api, f)
			must(t, p.outputNow(t, site(t, "b")))
			must(t, p.checkpointNow(t, site(t, "b")))
			wantPointers(t, api, "b", "a")
			if stored := api.names(v1alpha1.KindCfg); len(stored) != 3 {
				t.Errorf("after write %d (lost %v): %d outputs are stored, want 3", n, lost, len(stored))
			}
			if maps := api.names(v1alpha1.KindMapFile); len(maps) != 3 {
				t.Errorf("after write %d (lost %v): %d maps are stored, want one ordinary and two shared", n, lost, len(maps))
			}
		}
	}
}

// checkpointKey is the object that the pointer at that position names.
func checkpointKey(t testing.TB, api *server, position int) objectKey {
	t.Helper()
	ordinary := read[v1alpha1.HAProxyCfg](api, ordinaryKey)
	return objectKey{v1alpha1.KindCfg, ordinary.Status.RetainedConfigs[position].Name}
}

func sharedMap(t testing.TB, api *server) objectKey {
	t.Helper()
	cfg := read[v1alpha1.HAProxyCfg](api, checkpointKey(t, api, 0))
	return objectKey{v1alpha1.KindMapFile, cfg.Status.AuxiliaryFiles.MapFiles[0].Name}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	report := func(version string) func(t *testing.T, api *server, f *fence) {
		return func(t *testing.T, api *server, _ *fence) {
			edit(api, ordinaryKey, func(o *v1alpha1.HAProxyCfg) {
				o.Status.DeployedToPods = append(o.Status.DeployedToPods, v1alpha1.PodDeploymentStatus{
					PodName: "pod-" + version, Checksum: site(t, version).Checksum(),
				})
			})
		}
	}
	intend := func(version string) func(t *testing.T, api *server, f *fence) {
		return func(t *testing.T, _ *server, f *fence) {
			f.set(func(f *fence) { f.intent = fencing.Intent{PlanID: "p", Checksum: site(t, version).Checksum()} })
		}
	}
	tests := []struct {
		name string
		with func(t *testing.T, api *server, f *fence)
		want []string
	}{
		{name: "newest and predecessor stay", want: []string{"d", "c"}},
		{name: "what a pod reports stays", with: report("a"), want: []string{"d", "c", "a"}},
		{name: "what the intent names stays", with: intend("a"), want: []string{"d", "c", "a"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f := &fence{}
			api, p := published(t, f, "a", "b")
			if tc.with != nil {
				tc.with(t, api, f)
			}
			for _, version := range []string{"c", "d"} {
				must(t, p.outputNow(t, site(t, version)))
				must(t, p.checkpointNow(t, site(t, version)))
			}
			wantPointers(t, api, tc.want...)
			if n := len(api.names(v1alpha1.KindCfg)); n != len(tc.want)+1 {
				t.Errorf("%d outputs are stored, want %d", n, len(tc.want)+1)
			}
			if n := len(api.names(v1alpha1.KindMapFile)); n != len(tc.want)+1 {
				t.Errorf("%d maps are stored, want %d", n, len(tc.want)+1)
			}
			if n := len(api.names(v1alpha1.KindSecret)); n != 4 {
				t.Errorf("%d Secrets are stored, want two ordinary and two shared", n)
			}
		})
	}
}

func TestSharedFilesAreLeftAloneWhileReferencesAreNotKnown(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(status object)
	}{
		{"a checkpoint whose references are not committed", func(status object) { delete(status, "auxiliaryFiles") }},
		{"a checkpoint with a reference list of a later release", func(status object) {
			status["auxiliaryFiles"].(object)["luaFiles"] = []any{object{"kind": "HAProxyMapFile", "name": "x"}}
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			api, p := published(t, &fence{}, "a", "b")
			key := checkpointKey(t, api, 1)
			editRaw(api, key, func(o object) { tc.change(o["status"].(object)) })
			before := len(api.names(v1alpha1.KindMapFile))
			edit(api, ordinaryKey, func(o *v1alpha1.HAProxyCfg) {
				// A pod keeps that checkpoint in the list, and a file that nobody
				// references would be collected but for it.
				o.Status.DeployedToPods = []v1alpha1.PodDeploymentStatus{{PodName: "p", Checksum: site(t, "a").Checksum()}}
			})
			orphan(t, api)
			must(t, p.checkpointNow(t, site(t, "c")))
			if after := len(api.names(v1alpha1.KindMapFile)); after != before+2 {
				t.Errorf("%d maps are stored, want %d, the orphan and the new one", after, before)
			}
		})
	}
}

// orphan stores a shared map of this template that no checkpoint references.
func orphan(t *testing.T, api *server) {
	t.Helper()
	o := read[v1alpha1.HAProxyMapFile](api, sharedMap(t, api))
	o.ObjectMeta = metav1.ObjectMeta{
		Name: "orphan", Namespace: namespace, Labels: o.Labels, Annotations: o.Annotations, OwnerReferences: o.OwnerReferences,
	}
	api.create(o)
}

func TestWhatBelongsToAnotherTemplateIsNotCollected(t *testing.T) {
	t.Parallel()
	api, p := published(t, &fence{}, "a")
	for _, key := range []objectKey{checkpointKey(t, api, 0), sharedMap(t, api)} {
		copied := object{}
		mustConvert(api.stored(key), &copied)
		old := copied["metadata"].(object)
		owners := old["ownerReferences"].([]any)
		owners[0].(object)["name"], owners[0].(object)["uid"] = api.other.Name, api.other.UID
		copied["metadata"] = object{"name": "foreign", "labels": old["labels"], "annotations": old["annotations"], "ownerReferences": owners}
		api.create(copied)
	}
	must(t, p.checkpointNow(t, site(t, "b")))
	for _, kind := range []string{v1alpha1.KindCfg, v1alpha1.KindMapFile} {
		if read[v1alpha1.HAProxyMapFile](api, objectKey{kind, "foreign"}) == nil {
			t.Errorf("a foreign %s was deleted", kind)
		}
	}
}

// The name covers the compressor's output; an equal payload under another name
// must not become a second checkpoint.
func TestACheckpointThatAnotherCompressorWroteIsReused(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := newPublisher(api, &fence{})
	o := site(t, "a")
	must(t, p.outputNow(t, o))
	e, err := encode(o, defaultThreshold)
	must(t, err)
	e.payload = recompress(t, e.payload)
	_, err = p.publishCheckpoint(quiet(), receiptFor(o, "pod-1", 1), e)
	must(t, err)
	stored := api.names(v1alpha1.KindCfg)
	must(t, p.checkpointNow(t, o))
	if diff := cmp.Diff(stored, api.names(v1alpha1.KindCfg)); diff != "" {
		t.Errorf("stored outputs (-want +got):\n%s", diff)
	}
	wantPointers(t, api, "a")
}

func recompress(t *testing.T, payload string) string {
	t.Helper()
	packed, err := base64.StdEncoding.DecodeString(payload)
	must(t, err)
	decoder, err := zstd.NewReader(nil)
	must(t, err)
	defer decoder.Close()
	raw, err := decoder.DecodeAll(packed, nil)
	must(t, err)
	if !json.Valid(raw) {
		t.Fatal("the outer layer is not JSON")
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderCRC(false))
	must(t, err)
	other := base64.StdEncoding.EncodeToString(encoder.EncodeAll(raw, nil))
	if other == payload {
		t.Fatal("the other compressor wrote the same")
	}
	return other
}

func TestAReuseOfAnUnpromotedCheckpointMakesItsDeletionLose(t *testing.T) {
	t.Parallel()
	api, p := published(t, &fence{}, "a", "b")
	stopped := false
	other := newPublisher(api, &fence{})
	api.hooks(func(r request) error {
		// The collector is about to delete a's checkpoint.
		if r.Verb == "delete" && r.Kind == v1alpha1.KindCfg && !stopped {
			stopped = true
			must(t, other.checkpointNow(t, site(t, "a")))
		}
		return nil
	}, nil)
	// Its pointers changed under it; what counts is what is committed in the end.
	_ = p.checkpointNow(t, site(t, "c"))
	api.hooks(nil, nil)
	if !stopped {
		t.Fatal("nothing was collected")
	}
	if got := pointers(t, api); len(got) < 2 || got[0] != site(t, "a").Checksum() {
		t.Errorf("pointers %v, want a newest", got)
	}
}

func TestAReceiptStaysWithItsCheckpoint(t *testing.T) {
	t.Parallel()
	api, p := published(t, &fence{}, "a")
	must(t, p.sweep(quiet(), map[string]string{}))
	cfg := read[v1alpha1.HAProxyCfg](api, checkpointKey(t, api, 0))
	if len(cfg.Status.DeployedToPods) != 1 {
		t.Errorf("the checkpoint has %d entries, want its receipt", len(cfg.Status.DeployedToPods))
	}
	again := site(t, "a")
	e, err := encode(again, defaultThreshold)
	must(t, err)
	_, err = p.publishCheckpoint(quiet(), receiptFor(again, "pod-2", 9), e)
	must(t, err)
	cfg = read[v1alpha1.HAProxyCfg](api, checkpointKey(t, api, 0))
	if got := cfg.Status.DeployedToPods; len(got) != 1 || got[0].PodName != "pod-1" {
		t.Errorf("entries %v, want the first receipt", got)
	}
}

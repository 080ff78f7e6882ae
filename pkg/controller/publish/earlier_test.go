package publish

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/test/fakeapi"
)

// earlier stores the files of an output under names and owners of an earlier
// release.
func earlier(api *server, e *encoded, o owner, labels map[string]string, name func(*file) string) {
	for i := range e.files {
		f := &e.files[i]
		made := buildChild(f, metav1.ObjectMeta{
			Name: name(f), Namespace: namespace, Labels: labels, OwnerReferences: ownedBy(o),
		}, "some-claim")
		k := (&Publisher{kinds: childKinds(api.clients(fakeapi.Admin))}).kindNamed(f.Family.Kind())
		_, err := k.create(context.Background(), made)
		must(api.t, err)
	}
}

// earlierCheckpoint stores and promotes a checkpoint as HAPTIC 0.5 and 0.6 did:
// its files are its own, and their names end with its own.
func earlierCheckpoint(t *testing.T, api *server, o *checkpoint.Output) (name string) {
	t.Helper()
	e, err := encode(o, defaultThreshold)
	must(t, err)
	cfg := buildCheckpoint(e, api.web, checkpoint.CheckpointName(api.web.Name, e.checksum, e.payload))
	suffix := cfg.Name[strings.Index(cfg.Name, "-retained-"):]
	childName := func(f *file) string { return "haproxy-old" + f.ContentSuffix(f.checksum) + suffix }
	cfg.Status.AuxiliaryFiles = e.references(namespace, childName)
	setReceipt(cfg, receiptFor(o, "pod-0", 1), e)
	cfg.APIVersion, cfg.Kind = v1alpha1.SchemeGroupVersion.String(), v1alpha1.KindCfg
	api.create(cfg)
	stored := read[v1alpha1.HAProxyCfg](api, objectKey{v1alpha1.KindCfg, cfg.Name})
	earlier(api, e, outputOwner(stored), map[string]string{v1alpha1.LabelRuntimeConfig: checkpoint.LabelValue(cfg.Name)}, childName)
	edit(api, ordinaryKey, func(o *v1alpha1.HAProxyCfg) {
		o.Status.RetainedConfigs = append(o.Status.RetainedConfigs, v1alpha1.RetainedConfigReference{
			Name: cfg.Name, UID: stored.UID, Checksum: e.checksum,
		})
	})
	return cfg.Name
}

func TestFilesOfACheckpointOfAnEarlierReleaseGoWithIt(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := newPublisher(api, &fence{})
	must(t, p.outputNow(t, site(t, "z")))
	earlierCheckpoint(t, api, site(t, "z"))
	wantPointers(t, api, "z")
	must(t, p.publishBoth(t, site(t, "a")))
	wantPointers(t, api, "a", "z")

	// z again: under the same name, and with files of the shared form.
	must(t, p.publishBoth(t, site(t, "b")))
	wantPointers(t, api, "b", "a")
	for _, kind := range []string{v1alpha1.KindMapFile, v1alpha1.KindGeneralFile, v1alpha1.KindCRTListFile, v1alpha1.KindSecret} {
		for _, name := range api.names(kind) {
			if strings.Contains(name, "haproxy-old") {
				t.Errorf("%s %s was left behind", kind, name)
			}
		}
	}
}

func TestAnEarlierReleasesCheckpointIsReusedAsItIs(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := newPublisher(api, &fence{})
	must(t, p.outputNow(t, site(t, "z")))
	name := earlierCheckpoint(t, api, site(t, "z"))
	api.took()
	must(t, p.checkpointNow(t, site(t, "z")))
	for _, r := range api.took() {
		if r.writes() {
			t.Errorf("wrote %+v", r)
		}
	}
	if got := checkpointKey(t, api, 0).name; got != name {
		t.Errorf("the pointer names %s, want %s", got, name)
	}
	wantPointers(t, api, "z")
}

func (p *Publisher) publishBoth(t *testing.T, o *checkpoint.Output) error {
	t.Helper()
	must(t, p.outputNow(t, o))
	return p.checkpointNow(t, o)
}

// HAPTIC 0.7 names and labels its shared files in a way that is not published.
func TestSharedFilesOfAnotherNamingAreFoundByTheirOwner(t *testing.T) {
	t.Parallel()
	api, p := published(t, &fence{}, "a")
	e, err := encode(output(t, "global\n", map[string]string{
		"maps/old.map": "x y\n", "ssl/old.pem": "old", "ca/old.pem": "old", "lists/old.txt": "ssl/old.pem\n", "files/old.http": "old",
	}), defaultThreshold)
	must(t, err)
	owned := templateOwner(api.web)
	earlier(api, e, owned, map[string]string{"example.org/shared": "1"}, func(f *file) string {
		return "haptic-some-stem" + f.ContentSuffix(f.checksum) + "-anything"
	})
	// Neither our label nor a content digest: whatever this is, it is not ours.
	unknown := &v1alpha1.HAProxyMapFile{
		ObjectMeta: metav1.ObjectMeta{Name: "haptic-unknown", Namespace: namespace, OwnerReferences: ownedBy(owned)},
		Spec:       v1alpha1.HAProxyMapFileSpec{MapName: "x", Path: "maps/x", Entries: "x", Checksum: "sha256:00"},
	}
	unknown.APIVersion, unknown.Kind = v1alpha1.SchemeGroupVersion.String(), v1alpha1.KindMapFile
	api.create(unknown)
	other := *unknown
	other.Name, other.OwnerReferences = "foreign"+checkpoint.ContentSuffix(v1alpha1.KindMapFile, "maps/x", "sha256:00", false), ownedBy(templateOwner(api.other))
	api.create(&other)
	api.took()

	must(t, p.publishBoth(t, site(t, "b")))
	var left []string
	for _, kind := range []string{v1alpha1.KindMapFile, v1alpha1.KindGeneralFile, v1alpha1.KindCRTListFile, v1alpha1.KindSecret} {
		for _, name := range api.names(kind) {
			if strings.HasPrefix(name, "haptic-") || strings.HasPrefix(name, "foreign") {
				left = append(left, name)
			}
		}
	}
	slices.Sort(left)
	if diff := cmp.Diff([]string{other.Name, "haptic-unknown"}, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	wantPointers(t, api, "b", "a")
	lists := map[string]int{}
	for _, r := range api.took() {
		if r.Verb == "list" && r.Kind != v1alpha1.KindCfg {
			lists[r.Kind]++
		}
	}
	for kind, n := range lists {
		if n > 3 { // one of the ordinary output, two of the checkpoint
			t.Errorf("%d lists of %s", n, kind)
		}
	}
}

func TestASharedFileOfAnotherNamingThatIsReferencedStays(t *testing.T) {
	t.Parallel()
	api, p := published(t, &fence{}, "a", "b")
	// b's map moves to another name, as a 0.7 leader might have published it.
	key := sharedMap(t, api)
	o := read[v1alpha1.HAProxyMapFile](api, key)
	o.ObjectMeta = metav1.ObjectMeta{Name: "haptic-" + key.name[strings.Index(key.name, "content-"):], Namespace: namespace, OwnerReferences: o.OwnerReferences}
	o.OwnerReferences[0].Controller = nil
	o.Name = "haptic-x-" + key.name[strings.Index(key.name, "content-"):]
	api.create(o)
	edit(api, checkpointKey(t, api, 0), func(c *v1alpha1.HAProxyCfg) { c.Status.AuxiliaryFiles.MapFiles[0].Name = o.Name })
	must(t, p.publishBoth(t, site(t, "c")))
	if read[v1alpha1.HAProxyMapFile](api, objectKey{v1alpha1.KindMapFile, o.Name}) == nil {
		t.Error("a referenced file was collected")
	}
	if read[v1alpha1.HAProxyMapFile](api, key) != nil {
		t.Error("the file that nothing references any more is still there")
	}
}

func TestFilesOfAPromotedCheckpointWithoutItsLabelStay(t *testing.T) {
	t.Parallel()
	api, p := published(t, &fence{}, "a", "b")
	edit(api, checkpointKey(t, api, 0), func(o *v1alpha1.HAProxyCfg) { delete(o.Labels, v1alpha1.LabelRetainedFor) })
	must(t, p.publishBoth(t, site(t, "c")))
	if sharedMapOf(api, "b").name == "" {
		t.Error("a file of a promoted checkpoint was collected")
	}
}

// Publications older than ADR-0031 carry another set ID, on the children too,
// and names that end with it.
func TestAPublicationOfTheOldestFormIsMigratedAndCleanedUp(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := newPublisher(api, &fence{})
	e, err := encode(site(t, "a"), defaultThreshold)
	must(t, err)
	const digest = "3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7"
	old := buildOrdinary(e, api.web)
	old.Annotations[v1alpha1.AnnotationAuxiliarySetID] = "sha256:" + digest
	childName := func(f *file) string {
		return "haproxy-" + strings.ToLower(f.Family.Kind()) + "-" + f.checksum[7:15] + "-" + digest
	}
	old.Status.AuxiliaryFiles = e.references(namespace, childName)
	old.Status.AuxiliaryFiles.SetID = "sha256:" + digest
	old.Status.DeployedToPods = []v1alpha1.PodDeploymentStatus{{PodName: "pod-1", Checksum: e.checksum}}
	old.APIVersion, old.Kind = v1alpha1.SchemeGroupVersion.String(), v1alpha1.KindCfg
	api.create(old)
	stored := read[v1alpha1.HAProxyCfg](api, ordinaryKey)
	earlier(api, e, outputOwner(stored), ordinaryLabels(old.Name), childName)
	for i := range e.files {
		if e.files[i].Family == checkpoint.Map {
			edit(api, objectKey{v1alpha1.KindMapFile, childName(&e.files[i])}, func(o *v1alpha1.HAProxyMapFile) {
				o.Annotations = map[string]string{v1alpha1.AnnotationAuxiliarySetID: "sha256:" + digest}
			})
		}
	}

	must(t, p.publishBoth(t, site(t, "a")))
	cfg := read[v1alpha1.HAProxyCfg](api, ordinaryKey)
	if cfg.UID != stored.UID || len(cfg.Status.DeployedToPods) != 1 {
		t.Errorf("the output was not kept: UID %s, entries %v", cfg.UID, cfg.Status.DeployedToPods)
	}
	if !strings.HasPrefix(cfg.Status.AuxiliaryFiles.SetID, "content-sha256:") ||
		cfg.Annotations[v1alpha1.AnnotationAuxiliarySetID] != cfg.Status.AuxiliaryFiles.SetID {
		t.Errorf("set ID %s", cfg.Status.AuxiliaryFiles.SetID)
	}
	for _, c := range api.children() {
		if strings.HasSuffix(c.Name, digest) {
			t.Errorf("%s %s was left behind", c.Kind, c.Name)
		}
	}
	wantPointers(t, api, "a")
}

package retainedcheckpoint

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/holdfast-project/holdfast/pkg/apis/retained/install"
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/registry"
)

var texts = []string{"", "plain", "sha256:0123", "quote \" and \\", "<b>&", "\u2028 ä 世", "\xff", "line\nend"}

// fill sets every field of a value at random, those of later releases too, so
// that a field that the encoder does not know is noticed.
func fill(v reflect.Value, r *rand.Rand) {
	if at, isTime := v.Addr().Interface().(*metav1.Time); isTime {
		if r.IntN(2) == 0 {
			*at = metav1.NewTime(time.Unix(r.Int64N(4_000_000_000), 0))
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(texts[r.IntN(len(texts))])
	case reflect.Int64, reflect.Int32:
		v.SetInt(r.Int64N(3) * 1000)
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Pointer:
		if r.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), r)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		for i := range v.Len() {
			fill(v.Index(i), r)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key, r)
			fill(value, r)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			// Their raw JSON is checked by package json.
			if v.Type().Field(i).Name != "ManagedFields" {
				fill(v.Field(i), r)
			}
		}
	default:
		panic("no way to fill a " + v.Kind().String())
	}
}

func filledView(seed uint64) views.RetainedCheckpoint {
	r := rand.New(rand.NewPCG(seed, 1))
	var v views.RetainedCheckpoint
	fill(reflect.ValueOf(&v).Elem(), r)
	if r.IntN(2) == 0 {
		m := &v.ObjectMeta
		*m = metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, CreationTimestamp: m.CreationTimestamp, Labels: m.Labels}
	}
	return v
}

func TestViewsAreEncodedAsByTheJSONPackage(t *testing.T) {
	for seed := range uint64(3000) {
		v := filledView(seed)
		want, err := json.Marshal(&v)
		if err != nil {
			t.Fatal(err)
		}
		var got registry.JSON
		if err := appendView(&got, &v); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got.Bytes())); diff != "" {
			t.Fatalf("seed %d (-package json +ours):\n%s", seed, diff)
		}
	}
}

func encoders(t testing.TB) map[string]runtime.Encoder {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme, serializer.WithStreamingCollectionEncodingToJSON())
	found := map[string]runtime.Encoder{}
	for _, info := range codecs.SupportedMediaTypes() {
		if info.MediaType == runtime.ContentTypeProtobuf {
			continue
		}
		found[info.MediaType] = codecs.EncoderForVersion(info.Serializer, views.SchemeGroupVersion)
		if info.PrettySerializer != nil {
			found[info.MediaType+" pretty"] = codecs.EncoderForVersion(info.PrettySerializer, views.SchemeGroupVersion)
		}
	}
	return found
}

func filled(count int) *views.RetainedCheckpointList {
	l := &views.RetainedCheckpointList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: make([]views.RetainedCheckpoint, count)}
	for i := range l.Items {
		l.Items[i] = filledView(uint64(i))
		l.Items[i].TypeMeta = metav1.TypeMeta{}
	}
	return l
}

func TestListsAreEncodedAsByTheServer(t *testing.T) {
	for name, encoder := range encoders(t) {
		for _, count := range []int{0, 1, 2, 500} {
			plain := filled(count)
			var want, got bytes.Buffer
			if err := encoder.Encode(plain, &want); err != nil {
				t.Fatal(err)
			}
			if err := encoder.Encode(&list{plain}, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.String(), got.String()); diff != "" {
				t.Errorf("%s, %d items (-the server's +ours):\n%.2000s", name, count, diff)
			}
		}
	}
}

func TestOnlyCompactJSONOfOurVersionIsEncodedHere(t *testing.T) {
	for name, encoder := range encoders(t) {
		want := name == runtime.ContentTypeJSON
		if got := registry.IsPlainJSON(encoder.Identifier(), views.SchemeGroupVersion); got != want {
			t.Errorf("%s: %v, want %v; identifier %s", name, got, want, encoder.Identifier())
		}
	}
	if registry.IsPlainJSON("something else", views.SchemeGroupVersion) {
		t.Error("an unknown identifier counts as compact JSON")
	}
}

// usual is a view of the usual size: about 4 KiB.
func usual() views.RetainedCheckpoint {
	size, digest := int64(65536), strings.Repeat("0123456789abcdef", 4)
	v := views.RetainedCheckpoint{ObjectMeta: metav1.ObjectMeta{
		Name: "web-haproxycfg-retained-" + digest, Namespace: "edge", UID: "2d9f3a1e-6f0e-4a53-9d1e-000000000000", ResourceVersion: "1767225600000000001",
		CreationTimestamp: metav1.NewTime(time.Unix(1_767_225_600, 0)),
		Labels:            map[string]string{"haproxy-haptic.org/template-config": "web", "haproxy-haptic.org/retained-for": "2d9f3a1e-6f0e-4a53-9d1e-000000000000"},
	}}
	v.Status.Checksum, v.Status.PlanID, v.Status.Evidence = digest[:16], digest[:16], "sha256:"+digest
	for range 5 {
		v.Status.Artifacts = append(v.Status.Artifacts, views.ArtifactStatus{
			Family: "Map", Name: "maps/hosts.map", Path: "maps/hosts.map", Size: &size, Checksum: "sha256:" + digest, Shared: true,
			Object: &views.ObjectReference{Kind: "HAProxyMapFile", Name: "haproxy-map-hosts-" + digest, UID: "2d9f3a1e-6f0e-4a53-9d1e-000000000000"}, Verdict: "Verified",
		})
		v.Status.Conditions = append(v.Status.Conditions, metav1.Condition{
			Type: "Verified", Status: "True", Reason: "Verified", LastTransitionTime: v.CreationTimestamp,
			Message: "configuration, plan and 5 files are what their names and checksums say",
		})
	}
	return v
}

func BenchmarkList(b *testing.B) {
	encoder, l := encoders(b)[runtime.ContentTypeJSON], &views.RetainedCheckpointList{}
	for range 1000 {
		l.Items = append(l.Items, usual())
	}
	for name, obj := range map[string]runtime.Object{"server": l, "ours": &list{l}} {
		b.Run(name, func(b *testing.B) {
			var out bytes.Buffer
			for b.Loop() {
				out.Reset()
				if err := encoder.Encode(obj, &out); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(out.Len()))
		})
	}
}

package publish

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/test/fakeapi"
)

func TestUnchangedFilesKeepTheirObjectsAndClaims(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := newPublisher(api, &fence{})
	must(t, p.outputNow(t, site(t, "a")))
	secrets, maps := api.names(v1alpha1.KindSecret), api.names(v1alpha1.KindMapFile)
	before := read[corev1.Secret](api, objectKey{v1alpha1.KindSecret, secrets[0]})
	must(t, p.outputNow(t, site(t, "b")))
	if diff := cmp.Diff(secrets, api.names(v1alpha1.KindSecret)); diff != "" {
		t.Errorf("Secrets (-want +got):\n%s", diff)
	}
	if after := read[corev1.Secret](api, objectKey{v1alpha1.KindSecret, secrets[0]}); !cmp.Equal(before, after) {
		t.Errorf("an unchanged Secret was written:\n%s", cmp.Diff(before, after))
	}
	if now := api.names(v1alpha1.KindMapFile); len(now) != 1 || now[0] == maps[0] {
		t.Errorf("maps are %v, were %v, want one new", now, maps)
	}
}

func TestARepublishRepairsWhatWasChangedOrDeleted(t *testing.T) {
	t.Parallel()
	changes := map[string]func(api *server){
		"a map's entries": func(api *server) {
			edit(api, objectKey{v1alpha1.KindMapFile, api.names(v1alpha1.KindMapFile)[0]}, func(o *v1alpha1.HAProxyMapFile) {
				o.Spec.Entries = "other backend\n"
			})
		},
		"a certificate's bytes alone": func(api *server) {
			for _, name := range api.names(v1alpha1.KindSecret) {
				edit(api, objectKey{v1alpha1.KindSecret, name}, func(o *corev1.Secret) {
					for key := range o.Data {
						if key != "path" {
							o.Data[key] = []byte("other")
						}
					}
				})
			}
		},
		"an owner": func(api *server) {
			edit(api, objectKey{v1alpha1.KindCRTListFile, api.names(v1alpha1.KindCRTListFile)[0]}, func(o *v1alpha1.HAProxyCRTListFile) {
				o.OwnerReferences = nil
			})
		},
		"a label, so that no list shows the file": func(api *server) {
			edit(api, objectKey{v1alpha1.KindGeneralFile, api.names(v1alpha1.KindGeneralFile)[0]}, func(o *v1alpha1.HAProxyGeneralFile) {
				o.Labels = nil
			})
		},
		"a deleted file": func(api *server) {
			api.remove(objectKey{v1alpha1.KindMapFile, api.names(v1alpha1.KindMapFile)[0]})
		},
		"the configuration": func(api *server) {
			edit(api, ordinaryKey, func(o *v1alpha1.HAProxyCfg) { o.Spec.Content = "other" })
		},
		"the references": func(api *server) {
			edit(api, ordinaryKey, func(o *v1alpha1.HAProxyCfg) { o.Status.AuxiliaryFiles = nil })
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t)
			p := newPublisher(api, &fence{})
			must(t, p.outputNow(t, site(t, "a")))
			want := contentOf(t, api)
			change(api)
			if cmp.Equal(want, contentOf(t, api)) {
				t.Fatal("the change changed nothing")
			}
			must(t, p.outputNow(t, site(t, "a")))
			if diff := cmp.Diff(want, contentOf(t, api)); diff != "" {
				t.Errorf("after the repair (-want +got):\n%s", diff)
			}
		})
	}
}

// contentOf is everything stored but versions, UIDs, claims and generations.
func contentOf(t *testing.T, api *server) map[string]string {
	t.Helper()
	content := map[string]string{}
	for _, c := range api.children() {
		content[c.Kind+" "+c.Name] = fmt.Sprintf("%s %s %s %v %v", c.Path, c.Text, c.Checksum, c.Owners, c.Problems)
	}
	for _, k := range childKinds(api.clients(fakeapi.Admin)) {
		found, err := k.list(t.Context(), "")
		must(t, err)
		for _, c := range found {
			content["labels of "+c.GetName()] = fmt.Sprint(c.GetLabels())
		}
	}
	cfg := read[v1alpha1.HAProxyCfg](api, ordinaryKey)
	content["output"] = fmt.Sprintf("%+v %+v", cfg.Spec, cfg.Status.AuxiliaryFiles)
	return content
}

func TestAnObjectOfSomebodyElseIsLeftAlone(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := newPublisher(api, &fence{})
	must(t, p.outputNow(t, site(t, "a")))
	edit(api, ordinaryKey, func(o *v1alpha1.HAProxyCfg) { o.OwnerReferences[0].UID = types.UID(api.other.UID) })
	api.took()
	if err := p.outputNow(t, site(t, "b")); !errors.Is(err, ErrForeign) {
		t.Errorf("publication over a foreign output = %v, want ErrForeign", err)
	}
	for _, r := range api.took() {
		if r.writes() {
			t.Errorf("wrote %+v", r)
		}
	}
}

func TestAFileThatIsBeingDeletedCannotSatisfyAPublication(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := newPublisher(api, &fence{})
	must(t, p.outputNow(t, site(t, "a")))
	key := objectKey{v1alpha1.KindMapFile, api.names(v1alpha1.KindMapFile)[0]}
	edit(api, key, func(o *v1alpha1.HAProxyMapFile) { o.Finalizers = []string{"example.org/held"} })
	api.remove(key)
	if err := p.outputNow(t, site(t, "a")); !errors.Is(err, ErrTerminating) {
		t.Errorf("publication = %v, want ErrTerminating", err)
	}
	edit(api, key, func(o *v1alpha1.HAProxyMapFile) { o.Finalizers = nil })
	must(t, p.outputNow(t, site(t, "a")))
}

// A collector that stops at each of its points while another publisher returns
// to the earlier output (case P16 of docs/cases.md, ADR-0031's A to B to A).
func TestReuseWinsAgainstADeletionThatIsUnderWay(t *testing.T) {
	t.Parallel()
	// At each point the request is a deletion's: before it, or before the read
	// that its retry makes.
	points := map[string]func(r request, deletes *int) bool{
		"just before the delete": func(r request, _ *int) bool { return r.Verb == "delete" },
		"between the delete and its retry": func(r request, deletes *int) bool {
			if r.Verb == "delete" {
				*deletes++
			}
			return r.Verb == "get" && r.Kind == v1alpha1.KindMapFile && *deletes > 0
		},
	}
	for name, stopAt := range points {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t)
			collector, other := newPublisher(api, &fence{}), newPublisher(api, &fence{})
			a := site(t, "a")
			must(t, collector.outputNow(t, a))
			mapOfA := api.names(v1alpha1.KindMapFile)[0]
			deletes, stopped := 0, false
			api.hooks(func(r request) error {
				if r.Verb == "delete" && name != "just before the delete" && deletes == 0 {
					// A mere status write makes the first delete conflict.
					edit(api, objectKey{v1alpha1.KindMapFile, mapOfA}, func(o *v1alpha1.HAProxyMapFile) {
						o.Status.DeployedToPods = []v1alpha1.PodDeploymentStatus{{PodName: "pod-1"}}
					})
				}
				if !stopped && stopAt(r, &deletes) {
					stopped = true
					must(t, other.outputNow(t, a))
				}
				return nil
			}, nil)
			must(t, collector.outputNow(t, site(t, "b")))
			api.hooks(nil, nil)
			if !stopped {
				t.Fatal("the collector never came to that point")
			}
			if read[v1alpha1.HAProxyMapFile](api, objectKey{v1alpha1.KindMapFile, mapOfA}) == nil {
				t.Error("the collector deleted a file that was claimed again")
			}
		})
	}
}

func TestAStatusWriteDoesNotSaveAnUnreferencedFile(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := newPublisher(api, &fence{})
	must(t, p.outputNow(t, site(t, "a")))
	mapOfA := objectKey{v1alpha1.KindMapFile, api.names(v1alpha1.KindMapFile)[0]}
	wrote := false
	api.hooks(func(r request) error {
		if r.Verb == "delete" && !wrote {
			wrote = true
			edit(api, mapOfA, func(o *v1alpha1.HAProxyMapFile) {
				o.Status.DeployedToPods = []v1alpha1.PodDeploymentStatus{{PodName: "pod-1"}}
			})
		}
		return nil
	}, nil)
	must(t, p.outputNow(t, site(t, "b")))
	if read[v1alpha1.HAProxyMapFile](api, mapOfA) != nil {
		t.Error("the file is still there")
	}
}

func TestATermThatEndsWritesNothingMore(t *testing.T) {
	t.Parallel()
	for endAt := 1; ; endAt++ {
		api := newAPI(t)
		f := &fence{}
		p := newPublisher(api, f)
		must(t, p.outputNow(t, site(t, "a")))
		must(t, p.checkpointNow(t, site(t, "a")))
		f.set(func(f *fence) { f.checks, f.endAt = 0, endAt })
		api.took()
		err := errors.Join(p.outputNow(t, site(t, "b")), p.checkpointNow(t, site(t, "b")))
		writes := 0
		for _, r := range api.took() {
			if r.writes() {
				writes++
			}
		}
		if writes > endAt-1 {
			t.Errorf("%d writes with %d passed checks", writes, endAt-1)
		}
		pointers(t, api)
		if err == nil {
			if endAt < 8 {
				t.Errorf("only %d checks were made", endAt-1)
			}
			return
		}
		if !errors.Is(err, fencing.ErrFenced) {
			t.Errorf("publication = %v, want ErrFenced", err)
		}
	}
}

func TestAFileOfAnotherOwnerUnderOurLabelIsNotPruned(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := newPublisher(api, &fence{})
	must(t, p.outputNow(t, site(t, "a")))
	key := objectKey{v1alpha1.KindMapFile, api.names(v1alpha1.KindMapFile)[0]}
	edit(api, key, func(o *v1alpha1.HAProxyMapFile) { o.OwnerReferences[0].UID = types.UID(api.other.UID) })
	must(t, p.outputNow(t, site(t, "b")))
	if read[v1alpha1.HAProxyMapFile](api, key) == nil {
		t.Error("a file of another owner was deleted")
	}
}

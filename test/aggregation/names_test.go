package aggregation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/holdfast-project/holdfast/test/owncluster"
)

// TestP19NamesAreNobodyElses: what people type for a built-in resource means that
// one, and "all" does not depend on us.
func TestP19NamesAreNobodyElses(t *testing.T) {
	serve(t, "")
	var lists []*metav1.APIResourceList
	eventually(t, "discovery is complete", settle, func(context.Context) error {
		_, found, err := discovery.NewDiscoveryClientForConfigOrDie(owncluster.Config(t)).ServerGroupsAndResources()
		lists = found
		return err
	})
	ours, others := map[string]bool{}, map[string]string{}
	for _, list := range lists {
		for i := range list.APIResources {
			r := &list.APIResources[i]
			for _, name := range append(slices.Clone(r.ShortNames), r.Name, r.SingularName, strings.ToLower(r.Kind)) {
				if list.GroupVersion == group+"/v1alpha1" {
					ours[name] = true
				} else {
					others[name] = list.GroupVersion + " " + r.Name
				}
			}
			if list.GroupVersion == group+"/v1alpha1" && len(r.Categories) > 0 {
				t.Errorf("%s is of the categories %v", r.Name, r.Categories)
			}
		}
	}
	if !ours["rckpt"] || !ours["dintent"] || others["rc"] == "" {
		t.Fatalf("discovery is not what it was: ours are %v", ours)
	}
	for name := range ours {
		if other, taken := others[name]; taken && name != "" {
			t.Errorf("%q is a name of %s too", name, other)
		}
	}
}

// TestP19TheSchemaHoldsOurKindsUnderOurNames: in both versions, from the server
// itself and after the aggregator has merged it with all others.
func TestP19TheSchemaHoldsOurKindsUnderOurNames(t *testing.T) {
	serve(t, "")
	merged := aggregator(t, owncluster.Config(t))
	var three struct {
		Paths      map[string]json.RawMessage
		Components struct{ Schemas map[string]definition }
	}
	read(t, merged, "/openapi/v3"+groupPath, &three)
	for path := range three.Paths {
		if !strings.HasPrefix(path, groupPath) {
			t.Errorf("the schema of our group has the path %s", path)
		}
	}
	onlyOurs(t, three.Components.Schemas)
	var two struct{ Definitions map[string]definition }
	eventually(t, "the schema is merged", settle, func(ctx context.Context) error {
		read(t, merged, "/openapi/v2", &two)
		if _, found := two.Definitions["org.haproxy-haptic.retained.v1alpha1.RetainedCheckpoint"]; !found {
			return fmt.Errorf("none of %d definitions is ours", len(two.Definitions))
		}
		return nil
	})
	ours := map[string]definition{}
	for name, d := range two.Definitions {
		if strings.HasPrefix(name, "org.haproxy-haptic.retained.") {
			ours[name] = d
		}
	}
	onlyOurs(t, ours)
}

type definition struct {
	Kinds []struct{ Group, Kind string } `json:"x-kubernetes-group-version-kind"`
}

// onlyOurs expects our kinds, each under one name, and no other group's.
func onlyOurs(t *testing.T, schemas map[string]definition) {
	t.Helper()
	found := map[string]int{}
	for name, s := range schemas {
		if len(s.Kinds) != 1 || !strings.HasPrefix(name, "org.haproxy-haptic.") {
			continue // of no kind, or what every group has
		}
		if s.Kinds[0].Group != group {
			t.Errorf("%s is %v", name, s.Kinds)
		}
		found[s.Kinds[0].Kind]++
	}
	for _, kind := range []string{"RetainedCheckpoint", "RetainedCheckpointList", "DeploymentIntent", "DeploymentIntentList"} {
		if found[kind] != 1 {
			t.Errorf("%s has %d schemas", kind, found[kind])
		}
		delete(found, kind)
	}
	if len(found) > 0 {
		t.Errorf("there are other kinds: %v", found)
	}
}

func read(t *testing.T, c client, path string, into any) {
	t.Helper()
	got, err := c.get(t.Context(), path)
	if err != nil || got.code != http.StatusOK {
		t.Fatal(path, got.code, err)
	}
	if err := json.Unmarshal([]byte(got.body), into); err != nil {
		t.Fatal(path, err)
	}
}

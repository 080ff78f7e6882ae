package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// controllerAccount is the user that the controllers are to kube-apiserver.
const controllerAccount = "system:serviceaccount:" + fleet + ":holdfast-controller"

// conflicts is what kubectl says once for each object that it did not change.
const conflicts = "Apply failed with "

// definitions are HAPTIC's custom resource definitions whose names are ours too.
var definitions = []string{
	"haproxycfgs.haproxy-haptic.org", "haproxycrtlistfiles.haproxy-haptic.org", "haproxygeneralfiles.haproxy-haptic.org",
	"haproxymapfiles.haproxy-haptic.org", "haproxytemplateconfigs.haproxy-haptic.org",
}

// TestFullIsRefusedOverHAPTIC: applied over HAPTIC's definitions the full overlay
// changes none of them, and its controllers end with the reason and have written
// nothing. Once the definitions are ours, the same controllers start.
func TestFullIsRefusedOverHAPTIC(t *testing.T) {
	besideHAPTIC(t, "apply", "--server-side")
	t.Run("server-side apply goes by the field manager", applyGoesByManager)
	giveCertificates(t, system, map[string]string{"holdfast-apiserver-serving": "holdfast-apiserver." + system + ".svc"})
	giveCertificates(t, fleet, map[string]string{
		"holdfast-controller-identity": "controller.holdfast.internal", "holdfast-agent-identity": "agent.holdfast.internal",
	})
	file, objects := written(t, kustomized(t, []string{"overlays/full"}, nil))
	out, err := tryKube(t.Context(), "apply", "--server-side", "--field-manager=holdfast", "-f", file)
	if err == nil || strings.Count(err.Error(), conflicts) != len(definitions) {
		t.Errorf("applying over HAPTIC's definitions: %v, want a conflict for each of %d", err, len(definitions))
	}
	if applied := strings.Count(out, "serverside-applied"); applied != objects-len(definitions) {
		t.Errorf("%d of %d objects were applied beside the definitions:\n%s", applied, objects-len(definitions), out)
	}
	// Something to lead, so that a controller that does not refuse would be seen.
	kube(t, "create", "-n", fleet, "-f", "testdata/haptic/template.yaml")
	t.Run("the controllers say why and write nothing", controllersRefuse)
	t.Run("they start over definitions of this project", func(t *testing.T) {
		// A kind that was never asked for may be hard to delete: its store is made
		// at the first question, and the deletion asks before it is ready.
		eventually(t, "every kind answers", func(ctx context.Context) error {
			_, err := tryKube(ctx, "get", "-A", strings.Join(append(definitions, "haproxytemplatelibraries.haproxy-haptic.org"), ","))
			return err
		})
		kube(t, "delete", "--timeout=60s", "-f", hapticDefinitions)
		kube(t, "apply", "--server-side", "--field-manager=holdfast", "-f", file)
		kube(t, "create", "-n", fleet, "-f", "testdata/haptic/template.yaml")
		eventually(t, "a controller leads", func(ctx context.Context) error {
			_, err := tryKube(ctx, "-n", fleet, "get", "lease", fleet+"-leader")
			return err
		})
		kube(t, "-n", fleet, "rollout", "status", "deployment/holdfast-controller", "--timeout=60s")
	})
}

// applyGoesByManager shows what docs/install.md warns of. Nothing of ours is
// stored, and in the end both kubectl and Helm have applied HAPTIC's definitions.
func applyGoesByManager(t *testing.T) {
	replaces := func(what string, want bool, args ...string) {
		t.Helper()
		out, err := tryKube(t.Context(), append([]string{"apply", "--dry-run=server", "-k", "../../manifests/base/crd"}, args...)...)
		if want && err != nil || !want && (err == nil || strings.Count(err.Error(), conflicts) != len(definitions)) {
			t.Errorf("%s: replaced is to be %t, got %v: %s", what, want, err, out)
		}
	}
	replaces("server-side over what kubectl applied, which is the same manager", true, "--server-side")
	replaces("server-side as holdfast over what kubectl applied", false, "--server-side", "--field-manager=holdfast")

	kube(t, "apply", "--server-side", "--field-manager=helm", "--force-conflicts", "-f", hapticDefinitions)
	replaces("server-side over what Helm applied", false, "--server-side")
	replaces("server-side as holdfast over what Helm applied", false, "--server-side", "--field-manager=holdfast")
	replaces("server-side by force", true, "--server-side", "--force-conflicts")
	replaces("from the client's side, which knows no conflicts", true)
}

// controllersRefuse waits until both controllers have ended with the reason and
// looks for anything they wrote.
func controllersRefuse(t *testing.T) {
	eventually(t, "both controllers ended twice", func(ctx context.Context) error {
		out, err := tryKube(ctx, "-n", fleet, "get", "pods", "-l", "app.kubernetes.io/name=holdfast-controller", "-o",
			`jsonpath={range .items[*]}{.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].lastState.terminated.exitCode}{"\n"}{end}`)
		if err != nil {
			return err
		}
		ended := 0
		for line := range strings.Lines(out) {
			restarts, code := 0, 0
			if _, err := fmt.Sscan(line, &restarts, &code); err == nil && restarts >= 2 && code == 1 {
				ended++
			}
		}
		if ended != 2 {
			return fmt.Errorf("restarts and exit codes are %q", out)
		}
		return nil
	})
	says := func(ctx context.Context, args ...string) error {
		said, err := tryKube(ctx, append([]string{"-n", fleet}, args...)...)
		var problems []error
		for _, want := range append([]string{"refused to start", "docs/upgrade.md", "docs/install.md", "haproxytemplatelibraries.haproxy-haptic.org"}, definitions...) {
			if !strings.Contains(said, want) {
				problems = append(problems, fmt.Errorf("kubectl %s does not say %q: %s", strings.Join(args, " "), want, said))
			}
		}
		return errors.Join(append(problems, err)...)
	}
	eventually(t, "log and pod say why", func(ctx context.Context) error {
		return errors.Join(
			says(ctx, "logs", "deployment/holdfast-controller"),
			says(ctx, "describe", "pods", "-l", "app.kubernetes.io/name=holdfast-controller"))
	})
	ready := kube(t, "-n", fleet, "get", "deployment", "holdfast-controller", "-o", "jsonpath={.status.readyReplicas}")
	if ready != "" && ready != "0" {
		t.Errorf("%s controllers are ready", ready)
	}
	if leases := kube(t, "-n", fleet, "get", "leases", "-o", "name"); leases != "" {
		t.Errorf("there are Leases: %s", leases)
	}
	wantWrites(t, controllerAccount)
}

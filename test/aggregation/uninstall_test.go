package aggregation

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// foreign are kinds of a component that is not part of the development cluster.
var foreign = regexp.MustCompile(`(?m)^apiVersion: cert-manager\.io/`)

// uninstallation are the commands of docs/install.md that take everything back.
func uninstallation(t *testing.T) [][]string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(raw), "\n## Uninstall\n")
	_, block, _ := strings.Cut(section, "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	var commands [][]string
	for line := range strings.Lines(block) {
		commands = append(commands, strings.Fields(strings.TrimPrefix(line, "kubectl ")))
	}
	return commands
}

// TestP2dUninstallingLeavesNoAPIServiceAndBlocksNothing: the APIService goes before
// what it leads to, by the documented commands; and by the overlay alone it goes too.
func TestP2dUninstallingLeavesNoAPIServiceAndBlocksNothing(t *testing.T) {
	serve(t, "")
	commands := uninstallation(t)
	if len(commands) != 2 || !strings.HasPrefix(strings.Join(commands[0], " "), "delete apiservice "+apiService) || commands[1][0] != "delete" {
		t.Fatalf("docs/install.md does not delete the APIService first: %q", commands)
	}
	kube(t, commands[0]...)
	// The rest of the overlay has been applied by nobody here, so it is deleted as
	// far as it is there; its namespace is what waits for discovery.
	objects := strings.Split(kube(t, "kustomize", "../../"+commands[1][len(commands[1])-1]), "\n---\n")
	var known []string
	leads := 0
	for _, object := range objects {
		if strings.Contains(object, "\nkind: APIService\n") {
			leads++
		}
		if !foreign.MatchString(object) && !strings.Contains(object, "kind: Namespace\n") {
			known = append(known, object)
		}
	}
	if leads != 1 {
		t.Errorf("the overlay has %d APIServices, so deleting it would leave one", leads)
	}
	file := t.TempDir() + "/overlay.yaml"
	if err := os.WriteFile(file, []byte(strings.Join(known, "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	kube(t, "delete", "--ignore-not-found", "--wait=false", "-f", file)

	if out := kube(t, "get", "apiservices", "-o", "name"); strings.Contains(out, group) {
		t.Errorf("an APIService is left:\n%s", out)
	}
	namespaces := core(t).CoreV1().Namespaces()
	const last = "last"
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: last}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := namespaces.Delete(t.Context(), last, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	took := eventually(t, "a namespace goes", settle, gone(t, last))
	eventually(t, "the group is in no discovery", settle, func(ctx context.Context) error {
		out, err := tryKube(ctx, "get", "--raw", "/apis")
		if err == nil && strings.Contains(out, group) {
			err = fmt.Errorf("it is still there")
		}
		return err
	})
	fmt.Printf("P2d: a namespace was gone after %.1f s\n", took.Seconds())
}

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// reasons are the values of constants whose name begins with Reason.
func reasons(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") || len(spec.Values) != 1 {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, value)
		}
		return true
	})
	if len(found) == 0 {
		t.Fatalf("%s declares no reasons", file)
	}
	return found
}

// TestEveryReasonIsExplained: whoever reads a reason at night finds it.
func TestEveryReasonIsExplained(t *testing.T) {
	raw, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"../../pkg/checkpoint/reasons.go", "../../pkg/selection/refusal.go"} {
		for _, reason := range reasons(t, file) {
			if !regexp.MustCompile(`\b` + reason + `\b`).Match(raw) {
				t.Errorf("%s: docs/operations.md does not explain %s", file, reason)
			}
		}
	}
}

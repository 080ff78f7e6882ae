package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
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

// TestNamedTestsExist: a test that a document calls upon is one.
func TestNamedTestsExist(t *testing.T) {
	named := map[string]string{}
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatal("no documents", err)
	}
	for _, document := range documents {
		raw, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllSubmatch(raw, -1) {
			named[string(match[1])] = document
		}
	}
	err = filepath.WalkDir("../..", func(path string, entry os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		for name := range named {
			if strings.Contains(string(raw), "func "+name+"(") {
				delete(named, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, document := range named {
		t.Errorf("%s names %s, which is no test", document, name)
	}
}

package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	caseRow  = regexp.MustCompile(`(?m)^\| (P\d+) \| [^|]+ \| ([^|]+) \|$`)
	caseName = regexp.MustCompile(`(?m)^func Test(?:Row\d+(?:And\d+)?)?(P\d+)[a-g]*[A-Z]`)
	folders  = regexp.MustCompile("`((?:pkg|test)/[a-z/]+)`")
)

// TestEveryCaseIsCarriedByATestWhereItIsSaidToBe: a case without a test in each of
// the folders that docs/cases.md names is one that somebody only believes in.
func TestEveryCaseIsCarriedByATestWhereItIsSaidToBe(t *testing.T) {
	raw, err := os.ReadFile("../../docs/cases.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := caseRow.FindAllSubmatch(raw, -1)
	const cases = 20
	if len(rows) != cases {
		t.Fatalf("docs/cases.md has %d cases, want %d", len(rows), cases)
	}
	for i, row := range rows {
		number := string(row[1])
		if want := fmt.Sprintf("P%d", i+1); number != want {
			t.Errorf("row %d is case %s, want %s", i+1, number, want)
		}
		// test/conformance puts one script, whose steps have no functions.
		for _, folder := range folders.FindAllSubmatch(row[2], -1) {
			if name := string(folder[1]); name != "test/conformance" && !carried(t, name)[number] {
				t.Errorf("no test of %s carries the number of case %s", name, number)
			}
		}
	}
}

// carried are the cases whose numbers tests of a folder carry.
func carried(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range caseName.FindAllStringSubmatch(string(raw), -1) {
			found[match[1]] = true
		}
	}
	return found
}

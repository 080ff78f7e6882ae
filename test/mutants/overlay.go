package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutantVariable chooses the mutant of a mutated binary.
const mutantVariable = "HOLDFAST_MUTANT"

// overlayOf writes the mutated files and returns which files they replace.
func overlayOf(root, dir string) (map[string]string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, m := range mutants {
		for _, e := range m.edits {
			text, ok := texts[e.file]
			if !ok {
				raw, err := os.ReadFile(filepath.Join(root, e.file))
				if err != nil {
					return nil, err
				}
				text = string(raw)
			}
			if n := strings.Count(text, e.old); n != 1 {
				return nil, fmt.Errorf("mutant %q: its text is %d times in %s, want once", m.name, n, e.file)
			}
			on := fmt.Sprintf("(chosenMutant == %q)", m.name)
			texts[e.file] = strings.Replace(text, e.old, strings.ReplaceAll(e.new, "MUTANT", on), 1)
		}
	}
	overlay, packages := map[string]string{}, map[string]bool{}
	n := 0
	write := func(original, text string) error {
		n++
		file := filepath.Join(dir, fmt.Sprintf("%d.go", n))
		overlay[filepath.Join(root, original)] = file
		return os.WriteFile(file, []byte(text), 0o600)
	}
	for file, text := range texts {
		if err := write(file, text); err != nil {
			return nil, err
		}
		folder := filepath.Dir(file)
		if packages[folder] {
			continue
		}
		packages[folder] = true
		choice := fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar chosenMutant = os.Getenv(%q)\n", filepath.Base(folder), mutantVariable)
		if err := write(filepath.Join(folder, "zz_mutant.go"), choice); err != nil {
			return nil, err
		}
	}
	return overlay, nil
}

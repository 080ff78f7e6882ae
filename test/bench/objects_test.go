package main

import (
	"testing"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// What is measured must be what the targets speak of.
func TestStoredSetsAreSoundAndAsLargeAsWanted(t *testing.T) {
	for _, s := range []shape{largeShape, smallShape} {
		f, err := newSubject(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		verdict := f.bundle.Judge()
		if verdict.State != checkpoint.Verified || !verdict.Acknowledged {
			t.Errorf("%d bytes: %s %s: %s, acknowledged %t", s.configurationBytes, verdict.State, verdict.Reason, verdict.Message, verdict.Acknowledged)
		}
		if size := len(f.bundle.Checkpoint.Content); size > s.configurationBytes || size < s.configurationBytes-100 {
			t.Errorf("the configuration has %d bytes, want %d", size, s.configurationBytes)
		}
		secrets := 0
		for _, child := range f.bundle.Children {
			if child.Kind == checkpoint.KindSecret {
				secrets++
			}
		}
		if len(f.bundle.Children) != 5 || secrets != 1 {
			t.Errorf("%d files, %d of them secret, want 5 and 1", len(f.bundle.Children), secrets)
		}
	}
}

func TestGenerationsShareNothing(t *testing.T) {
	outputs, err := newOutputs(t.Context(), smallShape)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for generation := range 3 {
		output, err := outputs.render(t.Context(), generation)
		if err != nil {
			t.Fatal(err)
		}
		set, err := newStoredSet(outputs.template, output)
		if err != nil {
			t.Fatal(err)
		}
		names := []string{set.checkpoint.Name}
		for _, o := range set.maps {
			names = append(names, o.Name)
		}
		for _, o := range set.files {
			names = append(names, o.Name)
		}
		for _, o := range set.secrets {
			names = append(names, o.Name)
		}
		for _, name := range names {
			if other, taken := seen[name]; taken {
				t.Errorf("generations %d and %d share %s", other, generation, name)
			}
			seen[name] = generation
		}
	}
}

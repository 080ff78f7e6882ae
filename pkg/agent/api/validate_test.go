package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func validManifest() Manifest {
	return Manifest{
		IdentityVersion: IdentityVersion, PlanID: "0123456789abcdef", PlanProof: PlanProof([]byte("plan")),
		PlanSchemaVersion: PlanSchemaVersion, Token: Token{LeaderEpoch: 1, RenderSeq: 1}, Mode: ModeAuto,
		Files: []File{Declare(FileSpec{Path: ConfigPath, Kind: KindConfig}, []byte("global\n"))},
	}
}

// patched has the configuration, of 7 bytes, sent as a patch.
func patched(p Patch) func(*Manifest) { return func(m *Manifest) { m.Files[0].Patch = &p } }

func TestValidateManifest(t *testing.T) {
	mapFile := func(path string) File { return Declare(FileSpec{Path: path, Kind: KindMap}, nil) }
	tests := []struct {
		name   string
		change func(m *Manifest)
		field  string // empty when valid
	}{
		{"a complete manifest", func(*Manifest) {}, ""},
		{"a UTF-8 path", func(m *Manifest) { m.Files = append(m.Files, mapFile("maps/größe.map")) }, ""},
		{"a legacy identity", func(m *Manifest) { m.IdentityVersion = 0 }, "identity_version"},
		{"an upper-case plan ID", func(m *Manifest) { m.PlanID = "0123456789ABCDEF" }, "plan_id"},
		{"a bare proof", func(m *Manifest) { m.PlanProof = strings.TrimPrefix(m.PlanProof, ProofPrefix) }, "plan_proof"},
		{"another schema", func(m *Manifest) { m.PlanSchemaVersion = 2 }, "plan_schema_version"},
		{"no epoch", func(m *Manifest) { m.Token.LeaderEpoch = 0 }, "token.leader_epoch"},
		{"an expected plan without proof", func(m *Manifest) { m.ExpectedPrevPlanID = m.PlanID }, "expected_prev_plan_proof"},
		{"an unknown phase", func(m *Manifest) { m.ExpectedPhase = "new" }, "expected_phase"},
		{"an unknown mode", func(m *Manifest) { m.Mode = "runtime" }, "mode"},
		{"a revert with files", func(m *Manifest) { m.Mode = ModeRevertLKG }, "files"},
		{"a revert", func(m *Manifest) { m.Mode, m.Files = ModeRevertLKG, nil }, ""},
		{"no configuration", func(m *Manifest) { m.Files = nil }, "files"},
		{"a configuration under another kind", func(m *Manifest) { m.Files[0].Kind = KindMap }, "files[0].kind"},
		{"a second configuration", func(m *Manifest) {
			m.Files = append(m.Files, Declare(FileSpec{Path: "b.cfg", Kind: KindConfig}, nil))
		}, "files[1].kind"},
		{"an unknown kind", func(m *Manifest) {
			m.Files = append(m.Files, Declare(FileSpec{Path: "b", Kind: "script"}, nil))
		}, "files[1].kind"},
		{"a negative size", func(m *Manifest) { m.Files[0].Size = -1 }, "files[0].size"},
		{"too many bytes together", func(m *Manifest) {
			for i := range 3 {
				f := mapFile(fmt.Sprint(i))
				f.Size = MaxApplyBytes / 2
				m.Files = append(m.Files, f)
			}
		}, "files"},
		{"a patch", patched(Patch{BaseDigest: "0123456789abcdef", BaseSize: 9, Offset: 3, Length: 6}), ""},
		{"a patch at the end of an empty base", patched(Patch{BaseDigest: "0123456789abcdef"}), ""},
		{"a patch without its base", patched(Patch{BaseSize: 9}), "files[0].patch"},
		{"a patch that starts behind its base", patched(Patch{BaseDigest: "0123456789abcdef", BaseSize: 9, Offset: 10}), "files[0].patch"},
		{"a patch that ends behind its base", patched(Patch{BaseDigest: "0123456789abcdef", BaseSize: 9, Offset: 3, Length: 7}), "files[0].patch"},
		{"a patch with a length that wraps", patched(Patch{BaseDigest: "0123456789abcdef", BaseSize: 9, Offset: 9, Length: 1<<63 - 1}), "files[0].patch"},
		{"a patch before its base", patched(Patch{BaseDigest: "0123456789abcdef", BaseSize: 9, Offset: -1}), "files[0].patch"},
		{"a patch that keeps more than the file has", patched(Patch{BaseDigest: "0123456789abcdef", BaseSize: 8}), "files[0].patch"},
		{"a base that is too large", patched(Patch{BaseDigest: "0123456789abcdef", BaseSize: MaxApplyBytes + 1, Length: MaxApplyBytes + 1}), "files[0].patch"},
		{"a patch that is too large", func(m *Manifest) {
			m.Files[0].Size = MaxPatchBytes + 1
			m.Files[0].Patch = &Patch{BaseDigest: "0123456789abcdef"}
		}, "files[0].patch"},
		{"patches that are too large together", func(m *Manifest) {
			for i := range 2 {
				f := mapFile(fmt.Sprint(i))
				f.Size, f.Patch = MaxPatchBytes/2+1, &Patch{BaseDigest: "0123456789abcdef"}
				m.Files = append(m.Files, f)
			}
		}, "files"},
		{"folders that differ in case", func(m *Manifest) { m.Files = append(m.Files, mapFile("a/x"), mapFile("A/y")) }, "files[2].path"},
		{"a file below a file, case apart", func(m *Manifest) { m.Files = append(m.Files, mapFile("A/x"), mapFile("a")) }, "files[1].path"},
		{"a letter whose lower case is longer", func(m *Manifest) { m.Files = append(m.Files, mapFile("İ/x"), mapFile("İ/y")) }, ""},
		{"a backslash", func(m *Manifest) { m.Files = append(m.Files, mapFile(`a\b`)) }, "files[1].path"},
		{"invalid UTF-8", func(m *Manifest) { m.Files = append(m.Files, mapFile("a\xff")) }, "files[1].path"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			m := validManifest()
			tc.change(&m)
			field := ""
			var invalid *InvalidError
			if err := m.Validate(); errors.As(err, &invalid) {
				field = invalid.Field
			} else if err != nil {
				t.Fatalf("error of another type: %v", err)
			}
			if diff := cmp.Diff(tc.field, field); diff != "" {
				t.Errorf("refused field (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzValidatePath: what is accepted stays inside the folder and has one spelling.
func FuzzValidatePath(f *testing.F) {
	for _, seed := range []string{"a", "a/b", "../a", "/a", "a/../b", "a\x00", "a//b", ".", "a/."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if ValidatePath(p) != nil {
			return
		}
		if path.Clean(p) != p || path.IsAbs(p) || p == ".." || strings.HasPrefix(p, "../") || strings.ContainsRune(p, 0) {
			t.Errorf("accepted %q", p)
		}
	})
}

// FuzzManifest: no manifest makes validation panic, and what passes still
// passes after it was written and read again.
func FuzzManifest(f *testing.F) {
	seed, err := json.Marshal(validManifest())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m, again Manifest
		if json.Unmarshal(raw, &m) != nil || m.Validate() != nil {
			return
		}
		encoded, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(encoded, &again); err != nil {
			t.Fatal(err)
		}
		if err := again.Validate(); err != nil {
			t.Errorf("valid once, then %v", err)
		}
	})
}

func TestIdentity(t *testing.T) {
	got := Declare(FileSpec{Path: "a", Kind: KindMap}, []byte("abc")).State()
	want := FileState{
		Digest: "44bc2cf5ad770999", // xxHash64, seed 0
		Proof:  "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
		Size:   3,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("identity of abc (-want +got):\n%s", diff)
	}
}

func TestTokenOrder(t *testing.T) {
	ordered := []Token{{}, {0, 1}, {1, 0}, {1, 5}, {2, 0}, {2, 1}}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := a.Before(b); got != (i < j) {
				t.Errorf("%v before %v: %t", a, b, got)
			}
		}
	}
}

// TestStateNames pins the JSON names both sides and other readers rely on.
func TestStateNames(t *testing.T) {
	encoded, err := json.Marshal(State{AppliedPlan: []byte{0}, LastApply: &Result{}, InvariantViolation: "x"})
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(encoded, &members); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"api_version", "agent_version", "plan_schema_version", "agent_ops", "features", "haproxy", "generation",
		"applied_plan_id", "applied_plan_proof", "running_plan_id", "running_plan_proof", "worker_ops_plan_id",
		"worker_ops_plan_proof", "applied_token", "lkg_plan_id", "lkg_plan_proof", "applied_plan",
		"applied_plan_stored", "files", "last_apply", "invariant_violation",
	} {
		if _, ok := members[name]; !ok {
			t.Errorf("state has no member %s", name)
		}
	}
}

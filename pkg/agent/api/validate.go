package api

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// InvalidError says that a manifest or an announcement breaks the contract. It
// is never retried: the same bytes are refused again.
type InvalidError struct {
	// Field is the JSON path of what is wrong.
	Field string
	// Problem says what is wrong with it.
	Problem string
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Problem }

func invalid(field, format string, args ...any) error {
	return &InvalidError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// Validate checks everything about a manifest that needs no knowledge of a pod.
func (m *Manifest) Validate() error {
	switch {
	case m.IdentityVersion != IdentityVersion:
		return invalid("identity_version", "must be %d, is %d", IdentityVersion, m.IdentityVersion)
	case !IsDigest(m.PlanID):
		return invalid("plan_id", "must be 16 lower-case hex digits")
	case !IsProof(m.PlanProof):
		return invalid("plan_proof", "must be sha256: and 64 lower-case hex digits")
	case m.Token.LeaderEpoch == 0:
		return invalid("token.leader_epoch", "must not be zero")
	case (m.ExpectedPrevPlanID == "") != (m.ExpectedPrevPlanProof == ""):
		return invalid("expected_prev_plan_proof", "must be set exactly when expected_prev_plan_id is")
	}
	switch m.ExpectedPhase {
	case "", PhaseBootstrap, PhaseConfigured, PhaseDisowned:
	default:
		return invalid("expected_phase", "is not a phase")
	}
	switch m.Mode {
	case ModeRevertLKG:
		if len(m.Files) > 0 {
			return invalid("files", "must be empty with mode %s", ModeRevertLKG)
		}
		return m.validateOps()
	case ModeAuto, ModeReload:
	default:
		return invalid("mode", "must be %s, %s or %s", ModeAuto, ModeReload, ModeRevertLKG)
	}
	if m.PlanSchemaVersion != PlanSchemaVersion {
		return invalid("plan_schema_version", "must be %d, is %d", PlanSchemaVersion, m.PlanSchemaVersion)
	}
	if err := validateFiles(m.Files); err != nil {
		return err
	}
	return m.validateOps()
}

func validateFiles(files []File) error {
	if len(files) > MaxFiles {
		return invalid("files", "%d files exceed the limit of %d", len(files), MaxFiles)
	}
	var total, patched int64
	for i, f := range files {
		field := fmt.Sprintf("files[%d]", i)
		if err := ValidatePath(f.Path); err != nil {
			return invalid(field+".path", "%v", err)
		}
		switch {
		case !IsDigest(f.Digest):
			return invalid(field+".digest", "must be 16 lower-case hex digits")
		case !IsProof(f.Proof):
			return invalid(field+".proof", "must be sha256: and 64 lower-case hex digits")
		case f.Size < 0 || f.Size > MaxApplyBytes:
			return invalid(field+".size", "must be between 0 and %d", int64(MaxApplyBytes))
		case !slices.Contains([]string{KindConfig, KindMap, KindCert, KindCA, KindCRTList, KindGeneral}, f.Kind):
			return invalid(field+".kind", "%q is not a kind", f.Kind)
		case (f.Kind == KindConfig) != (f.Path == ConfigPath):
			return invalid(field+".kind", "%s is the one file of kind %s", ConfigPath, KindConfig)
		}
		if f.Patch != nil {
			if problem := checkPatch(f); problem != "" {
				return invalid(field+".patch", "%s", problem)
			}
			patched += f.Patch.PartSize(f.Size)
		}
		total += f.Size
	}
	if patched > MaxPatchBytes {
		return invalid("files", "patches of %d bytes exceed the limit of %d", patched, int64(MaxPatchBytes))
	}
	if total > MaxApplyBytes {
		return invalid("files", "%d bytes exceed the limit of %d", total, int64(MaxApplyBytes))
	}
	return validateTree(files)
}

func checkPatch(f File) string {
	p := f.Patch
	switch {
	case !IsDigest(p.BaseDigest):
		return "base_digest must be 16 lower-case hex digits"
	case p.BaseSize < 0 || p.BaseSize > MaxApplyBytes:
		return fmt.Sprintf("base_size must be between 0 and %d", int64(MaxApplyBytes))
	case p.Offset < 0 || p.Length < 0 || p.Offset > p.BaseSize || p.Length > p.BaseSize-p.Offset:
		return "offset and length must lie within the base"
	case p.PartSize(f.Size) < 0:
		return "the file is smaller than what is kept of the base"
	case p.PartSize(f.Size) > MaxPatchBytes:
		return fmt.Sprintf("exceeds %d bytes", int64(MaxPatchBytes))
	}
	return ""
}

// validateTree refuses lists that no folder can hold: two files of one name,
// names that a case-insensitive file system would merge, a file that is also
// a folder of another.
func validateTree(files []File) error {
	seen := make(map[string]string, len(files))
	for i, f := range files {
		folded := strings.ToLower(f.Path)
		if other, ok := seen[folded]; ok {
			if other == f.Path {
				return invalid(fmt.Sprintf("files[%d].path", i), "%q is listed twice", f.Path)
			}
			return invalid(fmt.Sprintf("files[%d].path", i), "%q and %q differ only in case", other, f.Path)
		}
		seen[folded] = f.Path
	}
	if _, ok := seen[ConfigPath]; !ok {
		return invalid("files", "%s is missing", ConfigPath)
	}
	folders := make(map[string]string)
	for i, f := range files {
		for at, c := range f.Path {
			if c != '/' {
				continue
			}
			folder := f.Path[:at]
			folded := strings.ToLower(folder)
			if file, ok := seen[folded]; ok {
				return invalid(fmt.Sprintf("files[%d].path", i), "%q lies under %q, which is a file", f.Path, file)
			}
			if other, ok := folders[folded]; ok && other != folder {
				return invalid(fmt.Sprintf("files[%d].path", i), "folders %q and %q differ only in case", other, folder)
			}
			folders[folded] = folder
		}
	}
	return nil
}

// ValidatePath accepts the one spelling of a path inside a set's folder.
func ValidatePath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("must not be empty")
	case len(path) > MaxPathBytes:
		return fmt.Errorf("has %d bytes, the limit is %d", len(path), MaxPathBytes)
	case !utf8.ValidString(path):
		return fmt.Errorf("must be valid UTF-8")
	case path[0] == '/':
		return fmt.Errorf("%q must not be absolute", path)
	}
	for _, r := range path {
		if r < 0x20 || r == 0x7f || r == '\\' {
			return fmt.Errorf("%q must hold no control character and no backslash", path)
		}
	}
	for element := range strings.SplitSeq(path, "/") {
		if element == "" || element == "." || element == ".." {
			return fmt.Errorf("%q must hold no empty, \".\" or \"..\" element", path)
		}
	}
	return nil
}

// IsDigest reports the form of a plan or file digest.
func IsDigest(s string) bool { return isHex(s, 16) }

// IsProof reports the form of a proof.
func IsProof(s string) bool {
	rest, ok := strings.CutPrefix(s, ProofPrefix)
	return ok && isHex(rest, 64)
}

func isHex(s string, digits int) bool {
	if len(s) != digits {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

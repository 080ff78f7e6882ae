package api

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-project/holdfast/pkg/plan"
)

// FeatureInPlaceOps in State.Features says that the agent understands
// Manifest.InPlaceOps. Which operations it can carry out is in State.AgentOps.
const FeatureInPlaceOps = "in_place_ops"

// FeatureFilePatch in State.Features says that the agent understands File.Patch.
const FeatureFilePatch = "file_patch"

const (
	// MaxOps bounds the operations of one apply.
	MaxOps = plan.MaxOperations
	// MaxLineBytes bounds one line, and one payload, of HAProxy's command line,
	// whose buffer has 16 KiB by default and loses what does not fit.
	MaxLineBytes = 12 << 10
	// maxWeight is HAProxy's own limit.
	maxWeight = 256
)

// OpResult is what became of one operation. An apply that fell back to a reload
// has those up to the one that ended the attempt.
type OpResult struct {
	Kind plan.OperationKind `json:"kind"`
	OK   bool               `json:"ok"`
	// Message says why not. It never quotes what was sent.
	Message string `json:"message,omitempty"`
}

// validateOps checks operations against the files they come with.
func (m *Manifest) validateOps() error {
	switch {
	case !m.InPlaceOps && len(m.Ops) > 0:
		return invalid("ops", "must be empty without in_place_ops")
	case !m.InPlaceOps:
		return nil
	case m.Mode != ModeAuto:
		return invalid("in_place_ops", "needs mode %s", ModeAuto)
	case m.ExpectedPrevPlanID == "":
		return invalid("in_place_ops", "needs expected_prev_plan_id")
	case len(m.Ops) > MaxOps:
		return invalid("ops", "%d operations exceed the limit of %d", len(m.Ops), MaxOps)
	}
	kinds := make(map[string]string, len(m.Files))
	for _, f := range m.Files {
		kinds[f.Path] = f.Kind
	}
	for i, op := range m.Ops {
		if problem := checkOp(op, kinds); problem != "" {
			return invalid(fmt.Sprintf("ops[%d]", i), "%s: %s", op.Kind, problem)
		}
	}
	return nil
}

// checkOp requires the members that the kind has, and no other: what is not
// understood must not be overlooked.
func checkOp(op plan.Operation, files map[string]string) string {
	rest := op
	rest.Kind = ""
	problem := ""
	switch op.Kind {
	case plan.OpServerAddress:
		problem = checkAddress(op)
		rest.Address, rest.Port = "", 0
	case plan.OpServerAdd:
		if problem = checkAddress(op); problem == "" && op.Weight != nil {
			problem = checkWeight(op)
		}
		rest.Address, rest.Port, rest.Weight, rest.Disabled = "", 0, nil, false
	case plan.OpServerWeight:
		problem = checkWeight(op)
		rest.Weight = nil
	case plan.OpServerState:
		rest.Disabled = false
	case plan.OpServerDelete:
	default:
		return checkFileOp(op, files)
	}
	if problem != "" {
		return problem
	}
	if !serverName.MatchString(op.Backend) || !serverName.MatchString(op.Server) {
		return "backend and server must have HAProxy's own names"
	}
	rest.Backend, rest.Server = "", ""
	if rest != (plan.Operation{}) {
		return "has members of another kind"
	}
	return ""
}

// fileKinds are the kinds of files that operations are about.
var fileKinds = map[plan.OperationKind]string{
	plan.OpMapSet: KindMap, plan.OpMapAdd: KindMap, plan.OpMapDelete: KindMap, plan.OpMapReplace: KindMap,
	plan.OpCertReplace: KindCert, plan.OpCertAdd: KindCert,
	plan.OpCRTListAdd: KindCRTList, plan.OpCRTListDelete: KindCRTList, plan.OpCAReplace: KindCA,
}

// checkFileOp is checkOp for what is about a file.
func checkFileOp(op plan.Operation, files map[string]string) string {
	rest := op
	rest.Kind, rest.Path = "", ""
	problem := ""
	switch op.Kind {
	case plan.OpMapSet, plan.OpMapAdd:
		problem = checkRow(op)
		rest.Key, rest.Value = "", ""
	case plan.OpMapDelete:
		problem = checkRow(op)
		rest.Key = ""
	case plan.OpMapReplace, plan.OpCertReplace, plan.OpCertAdd, plan.OpCAReplace:
	case plan.OpCertDelete:
		if files[op.Path] != "" || ValidatePath(op.Path) != nil {
			problem = "path must be that of a file that goes"
		}
	case plan.OpCRTListAdd, plan.OpCRTListDelete:
		problem = checkEntry(op, files)
		rest.Key, rest.Value = "", ""
	default:
		return "is not a kind"
	}
	if problem != "" {
		return problem
	}
	if want := fileKinds[op.Kind]; want != files[op.Path] {
		return "path must be a file of kind " + want
	}
	if rest != (plan.Operation{}) {
		return "has members of another kind"
	}
	return ""
}

// listEntry is what may follow the certificate in a crt-list: options, none of
// which names a file, and filters.
var listEntry = regexp.MustCompile(`^(\[[A-Za-z0-9_.,:/+@= -]+\]( |$))?([A-Za-z0-9!*_.-]+( |$))*$`)

func checkEntry(op plan.Operation, files map[string]string) string {
	switch {
	case op.Kind == plan.OpCRTListAdd && files[op.Key] != KindCert:
		return "key must be a file of kind " + KindCert
	case ValidatePath(op.Key) != nil:
		return "key must be the path of a certificate"
	case len(op.Value) > MaxLineBytes/2:
		return fmt.Sprintf("entry exceeds %d bytes", MaxLineBytes/2)
	case strings.HasSuffix(op.Value, " ") || !listEntry.MatchString(op.Value):
		return "value must be options and filters that stand by themselves"
	}
	return ""
}

var serverName = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)

func checkAddress(op plan.Operation) string {
	address, err := netip.ParseAddr(op.Address)
	if err != nil || address.Zone() != "" {
		return "address must be an IP address"
	}
	if op.Port < 1 || op.Port > 65535 {
		return "port must be between 1 and 65535"
	}
	return ""
}

func checkWeight(op plan.Operation) string {
	if op.Weight == nil || *op.Weight < 0 || *op.Weight > maxWeight {
		return fmt.Sprintf("weight must be between 0 and %d", maxWeight)
	}
	return ""
}

// checkRow accepts what can be one row of a map file, and nothing that a command
// line could read as more.
func checkRow(op plan.Operation) string {
	controls := func(r rune) bool { return r < 0x20 && r != '\t' || r == 0x7f }
	switch {
	case op.Key == "" || op.Key[0] == '#' || strings.ContainsAny(op.Key, " \t"):
		return "key must be one word that starts with no #"
	case op.Value != strings.Trim(op.Value, " \t"):
		return "value must have no white space around it"
	case op.Kind == plan.OpMapSet && op.Value == "":
		return "value must not be empty"
	case len(op.Key)+len(op.Value) > MaxLineBytes/2:
		return fmt.Sprintf("row exceeds %d bytes", MaxLineBytes/2)
	}
	for _, text := range []string{op.Key, op.Value} {
		if !utf8.ValidString(text) || strings.ContainsFunc(text, controls) {
			return "row must be valid UTF-8 without control characters"
		}
	}
	return ""
}

// CanDo reports that an agent in this state can be given the operations, which
// may be none, to bring its worker to another plan.
func (s *State) CanDo(ops []plan.Operation) bool {
	if !slices.Contains(s.Features, FeatureInPlaceOps) {
		return false
	}
	for _, op := range ops {
		if !slices.Contains(s.AgentOps, string(op.Kind)) {
			return false
		}
	}
	return true
}

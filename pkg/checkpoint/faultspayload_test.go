package checkpoint

import (
	"fmt"
	"strings"
	"testing"
)

func payloadFaults() []fault {
	return append(payloadByteFaults(), append(planFaults(), descriptorFaults()...)...)
}

// repack rewrites the outer layer and gives the object the name that follows.
func repack(rewrite func(outer string) string) func(*testing.T, *fixture) {
	return func(t *testing.T, f *fixture) {
		outer := refUnpack(t, f.checkpoint.RetainedPlan)
		changed := rewrite(outer)
		if changed == outer {
			t.Fatal("the rewrite changed nothing")
		}
		f.checkpoint.RetainedPlan = refPack(changed)
		f.rename()
	}
}

func replaceIn(old, with string) func(string) string {
	return func(text string) string { return strings.Replace(text, old, with, 1) }
}

// rebuilt is a fault whose payload is built with other parts from the start.
func rebuilt(name string, options fixtureOptions, state State, reasons ...Reason) fault {
	return fault{name: name, options: options, change: func(*testing.T, *fixture) {}, state: state, reasons: reasons}
}

func payloadByteFaults() []fault {
	return []fault{
		{
			name:   "the payload is gone",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.RetainedPlan = "" },
			state:  Damaged, reasons: []Reason{ReasonPayloadMissing, ReasonReceiptMissing},
		},
		{
			name:   "the payload is no base64",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.RetainedPlan = "*" + f.checkpoint.RetainedPlan[1:] },
			state:  Damaged, reasons: []Reason{ReasonPayloadUnreadable, ReasonNameMismatch, ReasonReceiptMissing},
		},
		{
			name: "the payload lost its end",
			change: func(_ *testing.T, f *fixture) {
				f.checkpoint.RetainedPlan = f.checkpoint.RetainedPlan[:len(f.checkpoint.RetainedPlan)-8]
			},
			state: Damaged, reasons: []Reason{ReasonPayloadUnreadable, ReasonNameMismatch, ReasonReceiptMissing},
		},
		{
			name:   "the outer layer is no JSON",
			change: repack(replaceIn("{", "[")),
			state:  Damaged, reasons: []Reason{ReasonPayloadUnreadable, ReasonReceiptMissing},
		},
		{
			name:   "the outer layer has no plan",
			change: repack(replaceIn(`"plan"`, `"plans"`)),
			state:  Damaged, reasons: []Reason{ReasonPayloadUnreadable, ReasonReceiptMissing},
		},
		{
			name:   "the inner layer does not decode",
			change: repack(replaceIn(`{"plan":"`, `{"plan":"AAAA`)),
			state:  Damaged, reasons: []Reason{ReasonPayloadUnreadable, ReasonReceiptMissing},
		},
		{
			name:   "the outer layer has a member of a later release",
			change: repack(replaceIn(`{`, `{"later":{"x":[1,2]},`)),
			state:  Verified, reasons: []Reason{ReasonUnknownMembers},
		},
		{
			name:   "the outer layer has two plans",
			change: repack(replaceIn(`{`, `{"plan":"x",`)),
			state:  Unknown, reasons: []Reason{ReasonNonCanonical},
		},
		{
			name:   "white space in the outer layer",
			change: repack(replaceIn(`,"artifacts":`, " ,\n\t\"artifacts\" : ")),
			state:  Verified,
		},
		{
			name:   "the evidence changed",
			change: repack(func(outer string) string { return outer[:len(outer)-6] + "0000\"}" }),
			state:  Damaged, reasons: []Reason{ReasonEvidenceMismatch},
		},
		{
			name: "the evidence has another form",
			change: repack(func(outer string) string {
				return strings.Replace(outer, `"evidence":"sha256:`, `"evidence":"sha512:`, 1)
			}),
			state: Damaged, reasons: []Reason{ReasonEvidenceMismatch},
		},
		rebuilt("a backend lost a line", fixtureOptions{backends: `{"be":{"body":["server s1 10.0.0.1:80"],"comments":null}}`},
			Damaged, ReasonBackendTextMismatch),
		rebuilt("a backend has a comment more", fixtureOptions{backends: `{"be":{"body":["server s1 10.0.0.1:80","option x"],"comments":["x"]}}`},
			Damaged, ReasonBackendTextMismatch),
		rebuilt("a backend's lines follow no rule we know, and somebody else wrote them",
			fixtureOptions{foreign: true, backends: `{"be":{"body":["server s1 10.0.0.1:80"],"comments":[]}}`},
			Unknown, ReasonBackendTextUnverifiable),
		rebuilt("a backend has no text", fixtureOptions{backends: `{}`}, Damaged, ReasonBackendsMismatch),
		rebuilt("there are no backend texts at all", fixtureOptions{backends: `null`}, Damaged, ReasonBackendsMismatch),
		rebuilt("a backend is in the payload only",
			fixtureOptions{backends: strings.Replace(refBackends, "{", `{"stray":{"body":null,"comments":null},`, 1)}, Damaged, ReasonBackendsMismatch),
	}
}

// planText is the sound plan with one change, under its old ID or a right one.
func planText(change func(string) string, keepID bool) string {
	text, id := refPlanJSON(refConfiguration, refFiles())
	changed := change(text)
	if changed == text {
		panic("the change changed nothing")
	}
	if keepID {
		return changed
	}
	unnamed := strings.Replace(changed, `"id":"`+id+`"`, `"id":""`, 1)
	return strings.Replace(unnamed, `"id":""`, `"id":"`+refPlanDigest(unnamed)+`"`, 1)
}

func planFaults() []fault {
	withPlan := func(change func(string) string) fixtureOptions {
		return fixtureOptions{planJSON: planText(change, false)}
	}
	withFile := func(path, member, value string) func(string) string {
		return func(text string) string {
			at := strings.Index(text, `{"path":"`+path+`","kind"`)
			member := `"` + member + `":`
			from := at + strings.Index(text[at:], member) + len(member)
			to := from + strings.IndexAny(text[from:], ",}")
			return text[:from] + value + text[to:]
		}
	}
	onRow := func(f fault, row string) fault {
		f.row = row
		return f
	}
	// The receipt of the fixture names the sound plan, so that any other has none.
	return []fault{
		rebuilt("a plan member changed under the old ID", fixtureOptions{planJSON: planText(replaceIn(`"name":"global"`, `"name":"other"`), true)},
			Damaged, ReasonPlanIDMismatch),
		rebuilt("the plan ID changed", fixtureOptions{planJSON: planText(replaceIn(`"id":"`, `"id":"0`), true)},
			Damaged, ReasonPlanIDMismatch, ReasonReceiptMissing),
		rebuilt("the plan ID is empty", fixtureOptions{planJSON: planText(func(text string) string {
			_, id := refPlanJSON(refConfiguration, refFiles())
			return strings.Replace(text, id, "", 1)
		}, true)}, Damaged, ReasonPlanIDMismatch, ReasonReceiptMissing),
		rebuilt("the plan is null", fixtureOptions{planJSON: "null"}, Damaged, append(nullPlan(), ReasonReceiptMissing)...),
		rebuilt("the plan is of a later format", fixtureOptions{planJSON: planText(replaceIn(`:1,`, `:2,`), true)},
			Unknown, ReasonUnsupportedSchema, ReasonReceiptMissing),
		rebuilt("the plan has a member of a later release", withPlan(replaceIn(`"name":"be"`, `"color":"red","name":"be"`)),
			Verified, ReasonUnknownMembers, ReasonReceiptMissing),
		rebuilt("the plan has a repeated member", withPlan(replaceIn(`"profiles":{}`, `"profiles":{},"profiles":{}`)),
			Unknown, ReasonNonCanonical, ReasonReceiptMissing),
		rebuilt("a section is one byte short", withPlan(replaceIn(`"length":21`, `"length":20`)),
			Damaged, ReasonSectionMismatch, ReasonSectionMismatch, ReasonSectionMismatch, ReasonSectionMismatch, ReasonReceiptMissing),
		rebuilt("a section is longer than the configuration", withPlan(replaceIn(`"length":21`, `"length":2100`)),
			Damaged, ReasonSectionMismatch, ReasonReceiptMissing),
		rebuilt("a section has a negative length", withPlan(replaceIn(`"length":21`, `"length":-1`)),
			Damaged, ReasonSectionMismatch, ReasonReceiptMissing),
		rebuilt("a section has another digest", withPlan(replaceIn(`"textDigest":"`, `"textDigest":"0`)),
			Damaged, ReasonSectionMismatch, ReasonReceiptMissing),
		rebuilt("a section is gone", withPlan(func(text string) string {
			from, to := strings.Index(text, `,{"kind":"backend"`), strings.Index(text, `],"backends"`)
			return text[:from] + text[to:]
		}), Damaged, ReasonSectionMismatch, ReasonReceiptMissing),
		rebuilt("more sections than an agent takes", withPlan(replaceIn(`"sections":[`, `"sections":[`+strings.Repeat("{},", 65536))),
			Damaged, ReasonTooManySections, ReasonReceiptMissing),
		rebuilt("more plan files than an agent takes", withPlan(replaceIn(`"files":[`, `"files":[`+strings.Repeat("{},", 4096))),
			Damaged, ReasonTooManyFiles, ReasonReceiptMissing),
		rebuilt("a plan file has another path", withPlan(replaceIn(`{"path":"`+generalRow, `{"path":"general/other.http`)),
			Damaged, ReasonPlanFilesMismatch, ReasonPlanFilesMismatch, ReasonReceiptMissing),
		rebuilt("the plan has no file for the configuration", withPlan(replaceIn(`{"path":"haproxy.cfg"`, `{"path":"other.cfg"`)),
			Damaged, ReasonPlanFilesMismatch, ReasonPlanFilesMismatch, ReasonReceiptMissing),
		rebuilt("a plan file occurs twice", withPlan(replaceIn(`"files":[`, `"files":[{"path":"maps/host.map","kind":"map","reloadOnChange":false,"digest":"`+
			refPlanDigest(refFiles()[0].content)+`","size":`+fmt.Sprint(len(refFiles()[0].content))+`},`)),
			Damaged, ReasonPlanFilesMismatch, ReasonReceiptMissing),
		rebuilt("the configuration's size is another", withPlan(withFile("haproxy.cfg", "size", "1")),
			Damaged, ReasonPlanDigestMismatch, ReasonReceiptMissing),
		rebuilt("the configuration's digest is another", withPlan(withFile("haproxy.cfg", "digest", `"0123456789abcdef"`)),
			Damaged, ReasonPlanDigestMismatch, ReasonReceiptMissing),
		onRow(rebuilt("a file's size is another", withPlan(withFile(certificateRow, "size", "1")),
			Damaged, ReasonPlanDigestMismatch, ReasonReceiptMissing), certificateRow),
		onRow(rebuilt("a file's digest is another", withPlan(withFile(certificateRow, "digest", `"0123456789abcdef"`)),
			Damaged, ReasonPlanDigestMismatch, ReasonReceiptMissing), certificateRow),
		onRow(rebuilt("a map's entries are not the plan's", withPlan(replaceIn(`"value":"be one"`, `"value":"be two"`)),
			Damaged, ReasonMapEntriesMismatch, ReasonReceiptMissing), mapRow),
		onRow(rebuilt("a map's entries are not the plan's, and somebody else wrote them",
			fixtureOptions{foreign: true, planJSON: planText(replaceIn(`"value":"be one"`, `"value":"be two"`), false)},
			Unknown, ReasonMapEntriesUnverifiable, ReasonReceiptMissing), mapRow),
		rebuilt("the plan declares no maps, which it need not", withPlan(func(text string) string {
			from, to := strings.Index(text, `"maps":{`), strings.Index(text, `,"files":[`)
			return text[:from] + `"maps":null` + text[to:]
		}), Verified, ReasonReceiptMissing),
	}
}

// nullPlan is what a payload without a plan leads to.
func nullPlan() []Reason { return []Reason{ReasonPayloadUnreadable} }

func descriptorFaults() []fault {
	change := func(old, with string) func(*testing.T, *fixture) { return repack(replaceIn(old, with)) }
	return []fault{
		{
			name:   "an artifact is of a family of a later release",
			change: change(`{"Family":5`, `{"Family":7`),
			state:  Unknown, row: "ssl/list.txt", reasons: []Reason{ReasonUnsupportedFamily, ReasonUnsupportedFamily, ReasonUnsupportedFamily},
		},
		{
			name:   "an artifact's family number fits no byte",
			change: change(`{"Family":5`, `{"Family":500`),
			state:  Unknown, row: "ssl/list.txt", reasons: []Reason{ReasonUnsupportedFamily, ReasonUnsupportedFamily, ReasonUnsupportedFamily},
		},
		{
			name:   "an artifact is declared as another family",
			change: change(`{"Family":2`, `{"Family":6`),
			state:  Damaged, row: generalRow, reasons: []Reason{ReasonFamilyMismatch},
		},
		{
			name: "an artifact is not declared",
			change: repack(func(outer string) string {
				from := strings.Index(outer, `{"Family":3`)
				to := strings.Index(outer, `{"Family":4`)
				return outer[:from] + outer[to:]
			}),
			state: Damaged, row: certificateRow, reasons: []Reason{ReasonPlanFilesMismatch, ReasonUndeclaredChild},
		},
		{
			name: "no artifact is declared",
			change: repack(func(outer string) string {
				from := strings.Index(outer, `[{"Family":1`)
				to := strings.Index(outer, `,"evidence"`)
				return outer[:from] + "null" + outer[to:]
			}),
			state: Damaged, row: "every", reasons: append(repeat(ReasonPlanFilesMismatch, 7), repeat(ReasonUndeclaredChild, 7)...),
		},
		{
			name:   "an artifact is declared with another path",
			change: change(`"Path":"/etc/haproxy/ssl/a_example.pem"`, `"Path":"/etc/haproxy/ssl/other.pem"`),
			state:  Damaged, row: certificateRow, reasons: []Reason{ReasonPathMismatch},
		},
		{
			name:   "an artifact is declared with the path of another",
			change: change(`"Path":"/etc/haproxy/maps/void.map"`, `"Path":"/etc/haproxy/maps/host.map"`),
			state:  Damaged, row: "maps/void.map", reasons: []Reason{ReasonDuplicateArtifact, ReasonPathMismatch},
		},
		{
			name:   "a general file is declared with another name",
			change: change(`"Name":"503.http"`, `"Name":"504.http"`),
			state:  Damaged, row: generalRow, reasons: []Reason{ReasonFileNameMismatch},
		},
		{
			name:   "an artifact's reload flag changed",
			change: change(`"ReloadOnChange":true`, `"ReloadOnChange":false`),
			state:  Damaged, reasons: []Reason{ReasonEvidenceMismatch},
		},
		{
			name:   "an artifact's runtime path is the configuration's",
			change: change(`"RuntimePath":"maps/void.map"`, `"RuntimePath":"haproxy.cfg"`),
			state:  Damaged, row: "maps/void.map",
			reasons: []Reason{ReasonDuplicatePath, ReasonPlanFilesMismatch, ReasonPlanDigestMismatch},
		},
		{
			name:   "two artifacts share a runtime path",
			change: change(`"RuntimePath":"maps/void.map"`, `"RuntimePath":"general/503.http"`),
			state:  Damaged, row: "maps/void.map", reasons: []Reason{ReasonDuplicatePath, ReasonPlanFilesMismatch, ReasonPlanDigestMismatch},
		},
		{
			name:   "two artifacts share their storage",
			change: change(`"Name":"list.txt"`, `"Name":"503.http"`),
			state:  Damaged, reasons: []Reason{ReasonDuplicateArtifact},
		},
		{
			name:   "an artifact has no runtime path, for which its path would stand",
			change: change(`"RuntimePath":"maps/void.map"`, `"RuntimePath":""`),
			state:  Damaged, reasons: []Reason{ReasonPlanFilesMismatch, ReasonPlanFilesMismatch},
		},
	}
}

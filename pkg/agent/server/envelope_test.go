package server

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// TestBadEnvelopesChangeNothing: requests that are wrong before their body is.
func TestBadEnvelopesChangeNothing(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.mustLoad(p.output("one"))
	before, files := p.state(true), p.listing()
	form := func(header http.Header) http.Header {
		header.Set("Content-Type", "multipart/form-data; boundary=x")
		return header
	}
	tests := []struct {
		name          string
		method, route string
		header        http.Header
		body          string
		status        int
		message       string
	}{
		{"two pod UIDs", "POST", api.RouteApply, form(http.Header{api.HeaderPodUID: {testPodUID, "other"}}), "--x--", 400, "given 2 times"},
		{"two template UIDs", "GET", api.RouteState, http.Header{api.HeaderTemplateUID: {testTemplateUID, testTemplateUID}}, "", 400, "given 2 times"},
		{"another pod", "GET", api.RouteState, http.Header{api.HeaderPodUID: {"other"}}, "", 409, string(api.ReasonWrongPod)},
		{"no pod", "PUT", api.RoutePlan, http.Header{api.HeaderPodUID: nil}, "x", 409, string(api.ReasonWrongPod)},
		{"another template", "PUT", api.RouteEpoch, http.Header{api.HeaderTemplateUID: {"other"}}, `{"leader_epoch":2}`, 409, string(api.ReasonWrongTemplate)},
		{"no form", "POST", api.RouteApply, http.Header{"Content-Type": {"application/json"}}, "{}", 400, "multipart"},
		{"a form without a boundary", "POST", api.RouteApply, http.Header{"Content-Type": {"multipart/form-data"}}, "", 400, "boundary"},
		{"a form without parts", "POST", api.RouteApply, form(http.Header{}), "--x--\r\n", 400, "first part"},
		{"verify twice", "GET", api.RouteState + "?verify=1&verify=0", nil, "", 400, "verify must be 0 or 1"},
		{"verify with a word", "GET", api.RouteState + "?verify=yes", nil, "", 400, "verify must be 0 or 1"},
		{"plan with a word", "GET", api.RouteState + "?plan=no", nil, "", 400, "plan must be 0 or 1"},
		{"an announcement of nothing", "PUT", api.RouteEpoch, nil, `{}`, 400, "must not be zero"},
		{"an announcement of two epochs", "PUT", api.RouteEpoch, nil, `{"leader_epoch":2,"leader_epoch":3}`, 400, "given twice"},
		{"an announcement in capitals", "PUT", api.RouteEpoch, nil, `{"LEADER_EPOCH":2}`, 400, "lower-case"},
		{"an announcement with more behind it", "PUT", api.RouteEpoch, nil, `{"leader_epoch":2}{}`, 400, "more follows"},
		{"an announcement that is too large", "PUT", api.RouteEpoch, nil, strings.Repeat(" ", api.MaxEpochBytes+1), 400, "exceeds"},
		{"an announcement of a fraction", "PUT", api.RouteEpoch, nil, `{"leader_epoch":2.5}`, 400, "cannot unmarshal"},
		{"a plan of another output", "PUT", api.RoutePlan, nil, "x", 409, before.AppliedPlanID},
		{"an empty plan", "PUT", api.RoutePlan, nil, "", 400, "empty"},
		{"a plan that is too large", "PUT", api.RoutePlan, nil, strings.Repeat("x", api.MaxPlanBytes+1), 400, "exceeds"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			status, answer := p.send(tc.method, tc.route, tc.header, strings.NewReader(tc.body))
			if status != tc.status || !strings.Contains(answer, tc.message) {
				t.Errorf("status %d, %s; want %d and %q", status, answer, tc.status, tc.message)
			}
		})
	}
	if diff := cmp.Diff(before, p.state(true)); diff != "" {
		t.Errorf("state (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(files, p.listing()); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

// slowReader gives one byte at a time, and never ends.
type slowReader struct{ sent []byte }

func (s *slowReader) Read(b []byte) (int, error) {
	if err := pause(context.Background(), 10*time.Millisecond); err != nil {
		return 0, err
	}
	b[0] = ' '
	if len(s.sent) > 0 {
		b[0], s.sent = s.sent[0], s.sent[1:]
	}
	return 1, nil
}

// TestSlowUploadIsGivenUp: a sender that dribbles holds a place for the time an
// upload may take, and no longer.
func TestSlowUploadIsGivenUp(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.patience = time.Second
	files := p.listing()
	began := time.Now()
	status, answer := p.send(http.MethodPost, api.RouteApply, http.Header{"Content-Type": {"multipart/form-data; boundary=x"}},
		&slowReader{sent: []byte("--x\r\n")})
	if status != http.StatusBadRequest || time.Since(began) > 20*time.Second {
		t.Errorf("status %d after %s: %s", status, time.Since(began), answer)
	}
	if diff := cmp.Diff(files, p.listing()); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
	p.mustLoad(p.output("one"))
}

// TestStorePlan: a lost plan blob is said to be lost, and the right bytes, no
// others, are taken back.
func TestStorePlan(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	request := p.request(p.output("one"))
	_, err := p.client.Apply(t.Context(), p.target, request)
	must(t, err)
	before := p.state(true)
	p.stop()
	writeFile(t, p.layout.set(p.agent.journal.Current)+"/"+setPlan, "damaged")
	p.startAgent()
	lost := p.state(true)
	if lost.AppliedPlanStored || lost.AppliedPlan != nil || lost.Phase != api.PhaseConfigured || lost.RunningPlanID != before.RunningPlanID {
		t.Errorf("state without the plan: %+v", lost)
	}
	if stored, err := p.client.StorePlan(t.Context(), p.target, []byte("another")); stored || err != nil {
		t.Errorf("another plan: stored %t, %v", stored, err)
	}
	if stored, err := p.client.StorePlan(t.Context(), p.target, request.Plan); !stored || err != nil {
		t.Errorf("the plan: stored %t, %v", stored, err)
	}
	if diff := cmp.Diff(before, p.state(true)); diff != "" {
		t.Errorf("state (-before +after):\n%s", diff)
	}
	p.stop()
	p.startAgent()
	if diff := cmp.Diff(before, p.state(true)); diff != "" {
		t.Errorf("state after a restart (-before +after):\n%s", diff)
	}
}

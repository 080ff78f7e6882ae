package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

const (
	drainQuiet   = 2 * time.Second
	drainBound   = 10 * time.Second
	drainMost    = 5 * time.Minute
	drainPolling = 100 * time.Millisecond
)

// drain waits until no connection was open for the quiet period, at most for
// the bound. It stops nothing itself: it is what a preStop hook waits in, so
// that HAProxy gets its signal when the pod left the load balancers.
func (a *agent) drain(ctx context.Context, bound time.Duration) api.DrainReport {
	began := time.Now()
	report := api.DrainReport{Reason: api.DrainBound}
	quietSince := began
	for {
		seen, err := a.haproxy.observe(ctx)
		now := time.Now()
		report.Waited = now.Sub(began).Round(time.Millisecond).String()
		if ctx.Err() != nil {
			report.Reason = api.DrainCancelled
			return report
		}
		if err != nil {
			report.Reason = api.DrainUnavailable
			return report
		}
		report.Connections = seen.Info.Connections
		if report.Connections > 0 {
			quietSince = now
		}
		switch {
		case now.Sub(quietSince) >= drainQuiet:
			report.Reason = api.DrainQuiet
			return report
		case now.Sub(began) >= bound:
			return report
		}
		if pause(ctx, drainPolling) != nil {
			report.Reason = api.DrainCancelled
			return report
		}
	}
}

func (h *handlers) drain(w http.ResponseWriter, r *http.Request) {
	bound := drainBound
	if text := r.URL.Query().Get("bound"); text != "" {
		asked, err := time.ParseDuration(text)
		if err != nil || asked <= 0 || asked > drainMost {
			h.fail(w, r, &requestError{stage: api.StageRequest, err: fmt.Errorf("bound %q is not a duration up to %s", text, drainMost)})
			return
		}
		bound = asked
	}
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Now().Add(bound + askTimeout)); err != nil {
		h.fail(w, r, err)
		return
	}
	answerJSON(w, http.StatusOK, h.agent.drain(r.Context(), bound))
}

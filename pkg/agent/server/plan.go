package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// movedError says that a plan blob is not that of the applied plan.
type movedError struct{ applied planRef }

func (e *movedError) Error() string {
	return fmt.Sprintf("the blob is not that of the applied plan %q", e.applied.ID)
}

// storePlan keeps the blob of the applied plan, for a pod that lost it. The
// proof alone says whose blob it is, so no token is needed: the bytes can be no
// others than those the pod was given with its output.
func (a *agent) storePlan(ctx context.Context, blob []byte) (api.StoredPlan, error) {
	if err := a.acquire(ctx); err != nil {
		return api.StoredPlan{}, err
	}
	defer a.release()
	applied, held := a.applied(), &a.current
	if a.journal.Scheduled != nil {
		held = &a.scheduled
	}
	if proof := api.PlanProof(blob); applied.ID == "" || proof != applied.Proof {
		return api.StoredPlan{}, &movedError{applied: applied}
	}
	answer := api.StoredPlan{PlanID: applied.ID, Proof: applied.Proof}
	if len((*held).plan) > 0 {
		return answer, nil
	}
	if err := a.disk.replace(filepath.Join(a.layout.set((*held).ID), setPlan), blob); err != nil {
		return api.StoredPlan{}, fmt.Errorf("writing plan: %w", err)
	}
	whole := **held // readers of the published state hold the other
	whole.plan = blob
	*held = &whole
	a.publish()
	klog.FromContext(ctx).Info("Stored a plan that was lost", "plan", applied.ID)
	return answer, nil
}

func (h *handlers) plan(w http.ResponseWriter, r *http.Request) {
	blob, err := readPart(http.MaxBytesReader(w, r.Body, api.MaxPlanBytes+1), api.MaxPlanBytes)
	if err == nil && len(blob) == 0 {
		err = errors.New("the body is empty")
	}
	if err != nil {
		h.fail(w, r, &requestError{stage: api.StageRequest, err: fmt.Errorf("plan: %w", err)})
		return
	}
	stored, err := h.agent.storePlan(r.Context(), blob)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	answerJSON(w, http.StatusOK, stored)
}

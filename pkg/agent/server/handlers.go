package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// maxUploads bounds the bodies that are read at once, each of which may hold
// api.MaxApplyBytes on disk. One controller needs one.
const maxUploads = 2

// handlers translate between HTTP and the state machine.
type handlers struct {
	agent    *agent
	uploads  chan struct{}
	patience time.Duration // with one upload
}

func newHandlers(a *agent) *handlers {
	return &handlers{agent: a, uploads: make(chan struct{}, maxUploads), patience: uploadTimeout}
}

// health answers for the process alone.
func (h *handlers) health(w http.ResponseWriter, _ *http.Request) {
	answerText(w, http.StatusOK, "ok")
}

func (h *handlers) ready(w http.ResponseWriter, _ *http.Request) {
	if !h.agent.ready() {
		answerText(w, http.StatusServiceUnavailable, "initialising")
		return
	}
	answerText(w, http.StatusOK, "ready")
}

// addressed admits requests that are meant for this pod, once it is ready.
func (h *handlers) addressed(next http.HandlerFunc) http.HandlerFunc {
	return h.whenReady(func(w http.ResponseWriter, r *http.Request) {
		meant, err := addressOf(r.Header)
		if err != nil {
			h.fail(w, r, err)
			return
		}
		actual := address{podUID: h.agent.config.PodUID, templateUID: h.agent.published.Load().state.TemplateUID}
		if c := checkAddress(meant, actual); c != nil {
			h.fail(w, r, c)
			return
		}
		next(w, r)
	})
}

func (h *handlers) whenReady(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !h.agent.ready() {
			answerJSON(w, http.StatusServiceUnavailable, api.ErrorDetail{Stage: api.StageStartup, Message: "initialising"})
			return
		}
		next(w, r)
	}
}

func (h *handlers) state(w http.ResponseWriter, r *http.Request) {
	verify, err := flagOf(r, api.QueryVerify, false)
	withPlan, planErr := flagOf(r, api.QueryPlan, true)
	if err := errors.Join(err, planErr); err != nil {
		h.fail(w, r, err)
		return
	}
	state, err := h.agent.state(r.Context(), verify, withPlan)
	if err != nil {
		h.failAs(w, r, err, api.StageState)
		return
	}
	answerJSON(w, http.StatusOK, state)
}

func (h *handlers) epoch(w http.ResponseWriter, r *http.Request) {
	var announced api.Announcement
	raw, err := readPart(http.MaxBytesReader(w, r.Body, api.MaxEpochBytes+1), api.MaxEpochBytes)
	if err == nil {
		err = decodeStrict(raw, &announced)
	}
	if err == nil && announced.LeaderEpoch == 0 {
		err = errors.New("leader_epoch must not be zero")
	}
	if err != nil {
		h.fail(w, r, &requestError{stage: api.StageRequest, err: err})
		return
	}
	floor, err := h.agent.announce(r.Context(), announced.LeaderEpoch)
	if err != nil {
		h.failAs(w, r, err, api.StageIdentity)
		return
	}
	answerJSON(w, http.StatusOK, floor)
}

func (h *handlers) apply(w http.ResponseWriter, r *http.Request) {
	select {
	case h.uploads <- struct{}{}:
		defer func() { <-h.uploads }()
	default:
		h.fail(w, r, errBusy)
		return
	}
	up := &upload{templateUID: r.Header.Get(api.HeaderTemplateUID), began: time.Now()}
	if err := h.receive(w, r, up); err != nil {
		h.fail(w, r, err)
		return
	}
	result, err := h.agent.apply(r.Context(), up)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	answerJSON(w, http.StatusOK, result)
}

// errBusy turns an upload away before it costs anything.
var errBusy = errors.New("too many uploads at once")

func (h *handlers) receive(w http.ResponseWriter, r *http.Request, up *upload) error {
	form, err := formOf(w, r, h.patience)
	if err != nil {
		return err
	}
	rec := &receiver{agent: h.agent, form: form, up: up}
	rec.admit = func(m *api.Manifest) error { return h.agent.admit(r.Context(), m) }
	return rec.receive()
}

// admit refuses early what the published state already refuses. The decision
// that counts is made again with the lock held.
func (a *agent) admit(ctx context.Context, m *api.Manifest) error {
	seen := a.published.Load()
	if c := checkFence(&seen.journal, m); c != nil {
		return c
	}
	if m.Token == seen.state.AppliedToken {
		return nil // may be a repeat, whose baseline is the one before it
	}
	applied := planRef{ID: seen.state.AppliedPlanID, Proof: seen.state.AppliedPlanProof}
	if c := checkBaseline(standing{phase: seen.state.Phase, applied: applied, token: seen.state.AppliedToken}, m); c != nil {
		return errors.Join(c, a.hear(ctx, m))
	}
	return nil
}

// hear remembers the term of an apply that is turned away: from then on nothing
// of an earlier term is loaded here.
func (a *agent) hear(ctx context.Context, m *api.Manifest) error {
	if err := a.acquire(ctx); err != nil {
		return err
	}
	defer a.release()
	if c := checkFence(a.journal, m); c != nil {
		return c
	}
	if !raiseFence(a.journal, m) {
		return nil
	}
	defer a.publish()
	a.dropOutranked(ctx)
	return a.save()
}

func (h *handlers) fail(w http.ResponseWriter, r *http.Request, err error) {
	h.failAs(w, r, err, api.StageFiles)
}

// failAs answers an error by its type; stage is for those that have none.
func (h *handlers) failAs(w http.ResponseWriter, r *http.Request, err error, stage string) {
	// A sender that is still sending would see a broken connection instead of
	// the answer. The read deadline bounds how long this takes.
	_, _ = io.CopyN(io.Discard, r.Body, api.MaxApplyBytes) // its end is all that is waited for
	var refused *conflict
	var missing *missingError
	var malformed *requestError
	var moved *movedError
	status, counted := http.StatusInternalServerError, stage
	var body any = api.ErrorDetail{Stage: stage, Message: clip(err.Error())}
	switch {
	case errors.As(err, &refused):
		status, counted, body = http.StatusConflict, "conflict", h.agent.conflictBody(refused)
	case errors.As(err, &missing):
		status, counted, body = http.StatusConflict, "missing", api.Missing{Missing: missing.paths}
	case errors.As(err, &moved):
		status, body = http.StatusConflict, api.MovedPlan{AppliedPlanID: moved.applied.ID, AppliedPlanProof: moved.applied.Proof}
	case errors.As(err, &malformed):
		status, counted = http.StatusBadRequest, malformed.stage
		body = api.ErrorDetail{Stage: malformed.stage, Message: clip(malformed.err.Error())}
	case errors.Is(err, errBusy), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		status, counted = http.StatusServiceUnavailable, api.StageBusy
		body = api.ErrorDetail{Stage: api.StageBusy, Message: clip(err.Error())}
	}
	if r.URL.Path == api.RouteApply {
		h.agent.metrics.rejections.WithLabelValues(counted).Inc()
	}
	logger := klog.FromContext(r.Context())
	if status == http.StatusInternalServerError {
		logger.Error(err, "Could not carry out a request", "route", r.URL.Path)
	} else {
		logger.V(2).Info("Refused a request", "route", r.URL.Path, "status", status, "reason", err)
	}
	answerJSON(w, status, body)
}

func answerJSON(w http.ResponseWriter, status int, body any) {
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(err) // our own types, without anything that JSON cannot hold
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(encoded, '\n')) // a peer that is gone cannot be told
}

func answerText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

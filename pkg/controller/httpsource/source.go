package httpsource

import (
	"context"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

const (
	// firstRetry is the pause after a failed fetch; it grows up to maxRetry or
	// the interval.
	firstRetry = time.Second
	maxRetry   = time.Minute
	// retryFactor and jitter keep replicas from asking all at once.
	retryFactor = 2
	jitter      = 0.1
	// intervalRetries is more steps than lead from firstRetry to maxRetry.
	intervalRetries = 10
)

// source follows one document. One goroutine fetches, others read.
type source struct {
	name     string
	settings settings
	client   *http.Client
	metrics  *Metrics
	changed  func()
	cancel   context.CancelFunc

	mu sync.Mutex
	memory
}

// memory is what is known of a document.
type memory struct {
	validators validators
	// tried says that a fetch has ended, well or not.
	tried bool
	// newest is what was fetched last, accepted what a passed render used.
	newest, accepted *Content
	// refusal is why newest may not be used, until it was fetched again.
	refusal error
	// blamed is the content and cause of the last refusal, also after it was
	// fetched again, so that each is told once.
	blamed string
	// failure is why the last fetch failed, nil after a good one.
	failure error
}

// run fetches until ctx ends. The first fetch is at once: a render waits for it.
func (s *source) run(ctx context.Context) {
	ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "httpResource", s.name, "url", display(s.settings.url)))
	backoff := s.newBackoff()
	for {
		err := s.fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		pause := wait.Jitter(s.settings.interval, jitter)
		if err != nil {
			pause = backoff.Step()
		} else {
			backoff = s.newBackoff()
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

func (s *source) newBackoff() *wait.Backoff {
	return &wait.Backoff{
		Duration: firstRetry, Factor: retryFactor, Jitter: jitter, Steps: intervalRetries,
		Cap: min(max(s.settings.interval, firstRetry), maxRetry),
	}
}

func (s *source) fetch(ctx context.Context) error {
	s.mu.Lock()
	last := s.validators
	s.mu.Unlock()
	content, now, err := fetch(ctx, s.client, s.settings, last)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	outcome, news := s.take(content, now, err)
	s.metrics.fetches.WithLabelValues(outcome).Inc()
	logger := klog.FromContext(ctx)
	switch {
	case err != nil && news:
		logger.Info("Did not fetch a document and will try again", "err", err)
	case outcome == outcomeChanged:
		logger.V(2).Info("Fetched new content", "digest", content.Digest, "bytes", len(content.Text))
	}
	if news {
		s.changed()
	}
	return err
}

// take notes how a fetch ended, and tells whether a render could differ by it.
func (s *source) take(content *Content, now validators, err error) (outcome string, news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	news = !s.tried || (s.failure == nil) != (err == nil)
	s.tried, s.failure = true, err
	if err != nil {
		return outcomeFailed, news
	}
	s.validators = now
	// What stood in the way of the content may be gone by now.
	news = news || s.refusal != nil
	s.refusal = nil
	if content == nil || s.newest != nil && s.newest.Digest == content.Digest {
		return outcomeUnchanged, news
	}
	s.newest = content
	return outcomeChanged, true
}

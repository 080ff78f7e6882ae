package publish

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var (
	// ErrBlocked says that rendering is blocked, so that nothing may be published.
	ErrBlocked = errors.New("publication is blocked while rendering fails")
	// ErrStopped says that the publisher's term is over.
	ErrStopped = errors.New("publisher has stopped")
	// ErrRefused says that the API server will never take an object as it is.
	ErrRefused = errors.New("refused for good by the API server")
	// ErrForeign says that an object of ours has another owner.
	ErrForeign = errors.New("object belongs to another owner")
	// ErrTerminating says that an object is being deleted and cannot be used.
	ErrTerminating = errors.New("object is being deleted")
	// ErrNotVerified says that a checkpoint did not verify when it was read back.
	ErrNotVerified = errors.New("checkpoint did not verify when read back")

	errNoOrdinary = errors.New("there is no ordinary output yet")
	errChanged    = errors.New("output was changed by somebody else during publication")
)

// SizeError says that an output could not be stored as it is.
type SizeError struct {
	// File is the path of the file, or of the configuration.
	File string
	// What was measured: "object", "checkpoint object", "secret data" or
	// "annotations".
	What string
	// Bytes is the stored size, with encoding, and Limit what may be stored.
	Bytes, Limit int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("%s would be stored with %d bytes of %s, at most %d can be stored", e.File, e.Bytes, e.What, e.Limit)
}

// refusedForGood tells answers that no repetition changes. etcd's refusals
// reach clients as 500 without a reason of their own, so that only their text
// tells them from a server that will recover.
func refusedForGood(err error) bool {
	if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsBadRequest(err) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	case http.StatusInternalServerError:
		message := status.Status().Message
		return strings.Contains(message, "request is too large") || strings.Contains(message, "ResourceExhausted")
	}
	return false
}

// explain wraps an error of a write with what was being written, and marks
// those that must not be tried again.
func explain(err error, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if refusedForGood(err) {
		return fmt.Errorf("%s: %w: %w", what, ErrRefused, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

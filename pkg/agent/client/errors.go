package client

import (
	"fmt"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// ConflictError says that the pod is not where the request expected it. The
// body tells where it is.
type ConflictError struct {
	Pod      string
	Conflict api.Conflict
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("agent of pod %s: conflict %s: %s", e.Pod, e.Conflict.Reason, e.Conflict.Message)
}

// MissingError says that the agent needs files that Apply was not given.
type MissingError struct {
	Pod   string
	Paths []string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("agent of pod %s: %d files are missing, %q first", e.Pod, len(e.Paths), e.Paths[0])
}

// RefusedError is every other refusal: a bad request, no right to ask, an agent
// that is not ready or could not write.
type RefusedError struct {
	Pod    string
	Status int
	Detail api.ErrorDetail
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("agent of pod %s: status %d, stage %q: %s", e.Pod, e.Status, e.Detail.Stage, e.Detail.Message)
}

// UnansweredError says that an apply may have been carried out. Nothing is
// known until the state has been read.
type UnansweredError struct {
	Pod string
	Err error
}

func (e *UnansweredError) Error() string {
	return fmt.Sprintf("agent of pod %s: no answer to an apply: %v", e.Pod, e.Err)
}

func (e *UnansweredError) Unwrap() error { return e.Err }

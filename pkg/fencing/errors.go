package fencing

import (
	"errors"
	"fmt"
)

var (
	// ErrFenced says that the term no longer holds what it acts by: another
	// holder, another epoch or another claim is stored. The term must stop, not
	// retry.
	ErrFenced = errors.New("fenced: the term no longer holds its leases")
	// ErrUnreadable says that an epoch or an intent is stored that does not
	// parse. It is never guessed: an operator has to look.
	ErrUnreadable = errors.New("stored fencing record does not parse")
	// ErrForeignTemplate says that a Lease belongs to another living template.
	// Errors that wrap it are ForeignError.
	ErrForeignTemplate = errors.New("lease belongs to another template")
	// ErrSuperseded says that the recorded intent names another output than the
	// one that was about to be used.
	ErrSuperseded = errors.New("a newer intent supersedes the output")
	// ErrEpochJump says that one pod asked for an epoch that no honest history
	// reaches. The pod is at fault; the term goes on without it.
	ErrEpochJump = errors.New("epoch lies too far ahead")
	// ErrExhausted says that no epoch is left above the stored one.
	ErrExhausted = errors.New("no epoch is left above the stored one")
	// ErrTerminating says that R is being deleted, so that a record written to
	// it would go with it. The claim can be repeated once it is gone.
	ErrTerminating = errors.New("retained-state lease is being deleted")
)

// ForeignError names the template that a Lease belongs to.
type ForeignError struct {
	// Lease is "leader-election lease", "retained-state lease" or
	// "copy of the intent".
	Lease    string
	Template TemplateRef
}

func (e *ForeignError) Error() string {
	name := e.Template.Name
	if name == "" {
		name = "of unknown name"
	}
	return fmt.Sprintf("%s belongs to template %s with UID %s", e.Lease, name, e.Template.UID)
}

// Is makes every ForeignError an ErrForeignTemplate.
func (e *ForeignError) Is(target error) bool { return target == ErrForeignTemplate }

func fenced(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFenced, fmt.Sprintf(format, args...))
}

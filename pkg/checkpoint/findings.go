package checkpoint

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// findings collects what checks found, in checking order.
type findings []Finding

// maxFindings bounds the findings of one object: a configuration in which every
// section is wrong needs no 65,536 of them.
const maxFindings = 256

// add appends a finding on one object: kind/name, the field, what is wrong. At
// the bound only a worse state than all before still gets in, in place of the last.
func (f *findings) add(state State, reason Reason, object, format string, args ...any) {
	if len(*f) >= maxFindings {
		if worst := f.worst(); lower(worst, state) == worst {
			return
		}
		*f = (*f)[:maxFindings-1]
	}
	*f = append(*f, Finding{State: state, Reason: reason, Message: object + ": " + fmt.Sprintf(format, args...)})
}

func (f *findings) damaged(reason Reason, object, format string, args ...any) {
	f.add(Damaged, reason, object, format, args...)
}

func (f *findings) unknown(reason Reason, object, format string, args ...any) {
	f.add(Unknown, reason, object, format, args...)
}

func (f *findings) note(reason Reason, object, format string, args ...any) {
	f.add(Note, reason, object, format, args...)
}

// mismatch is the common form of damage: a field with two values.
func (f *findings) mismatch(reason Reason, object, field string, expected, found any) {
	f.damaged(reason, object, "%s: expected %s, found %s", field, shown(expected), shown(found))
}

// unreadable is damage to a value that does not decode; one that is merely too
// large has a reason of its own.
func (f *findings) unreadable(reason Reason, object, field string, err error) {
	if errors.Is(err, ErrTooLarge) {
		reason = ReasonTooLarge
	}
	f.damaged(reason, object, "%s: %v", field, err)
}

func (f findings) worst() State {
	worst := Verified
	for i := range f {
		worst = lower(worst, f[i].State)
	}
	return worst
}

// concernContent tells whether any damage is to bytes or their declaration, and
// not only to whom an object belongs or how long it will live.
func (f findings) concernContent() bool {
	for i := range f {
		if f[i].State == Damaged && f[i].Reason != ReasonOwnerMismatch && f[i].Reason != ReasonTerminating {
			return true
		}
	}
	return false
}

// lower is the less favourable of two states. A note changes nothing.
func lower(a, b State) State {
	if a == Damaged || b == Damaged {
		return Damaged
	}
	if a == Unknown || b == Unknown {
		return Unknown
	}
	return Verified
}

// summary is the first finding of the worst state.
func (f findings) summary() (State, Reason, string) {
	worst := f.worst()
	for i := range f {
		if f[i].State == worst {
			return worst, f[i].Reason, f[i].Message
		}
	}
	return Verified, ReasonVerified, ""
}

// maxShown bounds a stored value in a message; names are at most 253 characters.
const maxShown = 256

// shown is a stored value as a message shows it: quoted, so that it cannot
// pretend to be something else, and cut.
func shown(value any) string {
	text, ok := value.(string)
	if !ok {
		return fmt.Sprint(value)
	}
	if len(text) > maxShown {
		return strconv.Quote(strings.ToValidUTF8(text[:maxShown], "")) + "..."
	}
	return strconv.Quote(text)
}

// objectName is how messages name an object.
func objectName(kind, name string) string {
	if len(name) > maxNameLength {
		name = strings.ToValidUTF8(name[:maxNameLength], "") + "..."
	}
	return kind + "/" + name
}

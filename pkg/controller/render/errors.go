package render

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/template"
)

// Reason classifies a render failure. It is the reason of the template's
// condition, so the list is closed.
type Reason string

const (
	// ReasonTemplateInvalid: a template or a setting cannot be understood.
	ReasonTemplateInvalid Reason = "TemplateInvalid"
	// ReasonRenderFailed: a template failed on the data it was given.
	ReasonRenderFailed Reason = "RenderFailed"
	// ReasonInputUnavailable: a watched kind is absent, forbidden or not
	// synced, or a critical document was never fetched.
	ReasonInputUnavailable Reason = "InputUnavailable"
	// ReasonTooLarge: an output exceeds a limit.
	ReasonTooLarge Reason = "TooLarge"
)

// maxShownValue keeps a long expression from hiding what is wrong with it.
const maxShownValue = 80

// Error is a render failure with the place it happened at. Fields that are not
// known are empty.
type Error struct {
	Reason Reason
	// Template is the path of the file being rendered, or a snippet's name.
	Template string
	// Line is a line of the template, or of the output when Output is set.
	Line   int
	Output bool
	// Value is the expression or text at fault.
	Value string
	// Object is the watched object that was being walked.
	Object string
	Err    error
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Template != "" {
		fmt.Fprintf(&b, "%s: ", e.Template)
	}
	switch {
	case e.Line > 0 && e.Output:
		fmt.Fprintf(&b, "rendered line %d: ", e.Line)
	case e.Line > 0:
		fmt.Fprintf(&b, "line %d: ", e.Line)
	}
	if value := e.Value; value != "" {
		if len(value) > maxShownValue {
			value = strings.ToValidUTF8(value[:maxShownValue], "") + " …"
		}
		fmt.Fprintf(&b, "at <%s>: ", value)
	}
	b.WriteString(e.Err.Error())
	if e.Object != "" {
		fmt.Fprintf(&b, " (while walking %s)", e.Object)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// invalid is a failure that no data can cure.
func invalid(template, format string, args ...any) error {
	return &Error{Reason: ReasonTemplateInvalid, Template: template, Err: fmt.Errorf(format, args...)}
}

// tooLarge is a failure of size.
func tooLarge(template, format string, args ...any) error {
	return &Error{Reason: ReasonTooLarge, Template: template, Err: fmt.Errorf(format, args...)}
}

// text/template reports places only as text, so this is the one spot where an
// error is taken apart by its words.
var (
	execPlace  = regexp.MustCompile(`(?s)^template: ([^\s:]+):(\d+):\d+: executing "[^"]*" at <(.*?)>: (.*)$`)
	parsePlace = regexp.MustCompile(`(?s)^template: ([^\s:]+):(\d+): (.*)$`)
)

// parseError places what text/template's parser said.
func parseError(name string, err error) error {
	found := parsePlace.FindStringSubmatch(err.Error())
	if found == nil {
		return invalid(name, "%w", err)
	}
	line, _ := strconv.Atoi(found[2]) // the pattern admits digits only
	return &Error{Reason: ReasonTemplateInvalid, Template: found[1], Line: line, Err: errors.New(found[3])}
}

// execError places a failed execution. The innermost place wins: an error from
// inside an included snippet is the snippet's.
func execError(name, object string, err error) error {
	var inner *Error
	if errors.As(err, &inner) && inner.Line > 0 {
		return inner
	}
	out := &Error{Reason: ReasonRenderFailed, Template: name, Object: object, Err: err}
	if inner != nil {
		out.Reason = inner.Reason
	}
	var exec template.ExecError
	if !errors.As(err, &exec) {
		return out
	}
	found := execPlace.FindStringSubmatch(exec.Error())
	if found == nil {
		return out
	}
	out.Template, out.Value = found[1], found[3]
	out.Line, _ = strconv.Atoi(found[2])
	out.Err = errors.New(found[4])
	return out
}

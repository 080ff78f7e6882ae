package render

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// fields reads the members of a dict that a template made. The first problem is
// kept, so that a reader can ask for everything and check once.
type fields struct {
	data map[string]any
	err  error
}

func onlyKeys(data map[string]any, known []string) error {
	for _, key := range keys(data) {
		if !slices.Contains(known, key) {
			return fmt.Errorf("unknown key %q, known are %s", key, strings.Join(known, ", "))
		}
	}
	return nil
}

func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

// name is a required identifier of HAProxy.
func (f *fields) name(key string) string {
	text := f.text(key)
	if f.err == nil && !properName.MatchString(text) {
		f.fail("%s %q must be 1 to 128 of A-Z a-z 0-9 _ . : -", key, text)
	}
	return text
}

// text is one line, or empty when the key is absent.
func (f *fields) text(key string) string {
	value, ok := f.data[key]
	if !ok || value == nil {
		return ""
	}
	text, ok := value.(string)
	if !ok {
		f.fail("%s must be a text, is %T", key, value)
		return ""
	}
	text = strings.TrimSpace(text)
	if strings.ContainsFunc(text, isControl) {
		f.fail("%s must be one line without control characters", key)
	}
	return text
}

func (f *fields) flag(key string) bool {
	value, ok := f.data[key]
	if !ok || value == nil {
		return false
	}
	flag, ok := value.(bool)
	if !ok {
		f.fail("%s must be true or false, is %T", key, value)
	}
	return flag
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// number is required. Numbers come as whatever JSON, YAML or a template made.
func (f *fields) number(key string, low, high int64) int64 {
	var n int64
	switch value := f.data[key].(type) {
	case int:
		n = int64(value)
	case int64:
		n = value
	case float64:
		if value != math.Trunc(value) || math.Abs(value) > 1<<53 {
			f.fail("%s %v must be a whole number", key, value)
			return 0
		}
		n = int64(value)
	case string:
		parsed, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			f.fail("%s %q must be a number", key, value)
			return 0
		}
		n = parsed
	default:
		f.fail("%s must be a number, is %T", key, value)
		return 0
	}
	if n < low || n > high {
		f.fail("%s %d must be between %d and %d", key, n, low, high)
	}
	return n
}

func (f *fields) list(key string) []any {
	switch value := f.data[key].(type) {
	case nil:
		return nil
	case []any:
		return value
	case []string:
		out := make([]any, 0, len(value))
		for _, text := range value {
			out = append(out, text)
		}
		return out
	default:
		f.fail("%s must be a list, is %T", key, value)
		return nil
	}
}

// lines are a list of single lines, or one text with a line each. Blank ones
// are dropped.
func (f *fields) lines(key string) []string {
	var given []any
	if text, ok := f.data[key].(string); ok {
		for line := range strings.SplitSeq(text, "\n") {
			given = append(given, line)
		}
	} else {
		given = f.list(key)
	}
	var out []string
	for i, value := range given {
		inner := fields{data: map[string]any{key: value}}
		line := inner.text(key)
		if inner.err != nil {
			f.fail("line %d: %w", i+1, inner.err)
		}
		if line != "" {
			out = append(out, line)
		}
	}
	return out
}

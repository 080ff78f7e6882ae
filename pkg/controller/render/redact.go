package render

import (
	"encoding/base64"
	"strings"
)

const (
	// redactWindow is the shortest piece of a Secret that is recognised inside
	// a longer text. Shorter pieces are too often ordinary words.
	redactWindow = 16
	// redactWhole is the shortest value that is recognised as a whole.
	redactWhole = 6
	// maxTextBytes bounds what is redacted, and so the work it costs.
	maxTextBytes = 4 << 10

	redacted = "[redacted]"
)

// Redact takes out of a text whatever a watched Secret holds, as stored or
// decoded, and cuts the text to a few KiB. Error texts of templates and of
// HAProxy quote their input, so nothing of them may go on without it.
func (s Snapshot) Redact(text string) string {
	if len(text) > maxTextBytes {
		text = strings.ToValidUTF8(text[:maxTextBytes], "") + " …"
	}
	hidden := make([]bool, len(text))
	windows := make(map[string][]int)
	for i := 0; i+redactWindow <= len(text); i++ {
		windows[text[i:i+redactWindow]] = append(windows[text[i:i+redactWindow]], i)
	}
	for _, value := range s.secrets() {
		if len(value) >= redactWhole && len(value) < redactWindow {
			hideWhole(text, hidden, value)
			continue
		}
		for i := 0; i+redactWindow <= len(value); i++ {
			for _, at := range windows[value[i:i+redactWindow]] {
				for j := at; j < at+redactWindow; j++ {
					hidden[j] = true
				}
			}
		}
	}
	return blank(text, hidden)
}

func hideWhole(text string, hidden []bool, value string) {
	for from := 0; ; {
		at := strings.Index(text[from:], value)
		if at < 0 {
			return
		}
		for j := from + at; j < from+at+len(value); j++ {
			hidden[j] = true
		}
		from += at + 1
	}
}

func blank(text string, hidden []bool) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case !hidden[i]:
			b.WriteByte(text[i])
		case i == 0 || !hidden[i-1]:
			b.WriteString(redacted)
		}
	}
	return strings.ToValidUTF8(b.String(), "")
}

// secrets are the values of watched Secrets, encoded and decoded.
func (s Snapshot) secrets() []string {
	var out []string
	for _, kind := range s {
		for _, o := range kind.Objects {
			if o.GetKind() != "Secret" || o.GroupVersionKind().Group != "" {
				continue
			}
			for _, field := range []string{"data", "stringData"} {
				values, _ := o.Object[field].(map[string]any)
				for _, value := range values {
					text, _ := value.(string)
					out = append(out, text)
					if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
						out = append(out, string(raw))
					}
				}
			}
		}
	}
	return out
}

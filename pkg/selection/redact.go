package selection

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

const (
	// minSecretBytes is the shortest line of a key or certificate that is looked
	// for. Shorter ones are ordinary words.
	minSecretBytes = 8
	// minPasswordBytes likewise for what the configuration itself keeps secret.
	minPasswordBytes = 4
	redacted         = "[redacted]"
)

// password finds what a configuration keeps secret in itself.
var password = regexp.MustCompile(`(?m)\b(?:password|insecure-password|auth)\s+(\S+)`)

// alertHead starts a line of HAProxy's: severity, a process ID that is another
// each time, and where the message comes from.
var alertHead = regexp.MustCompile(`^\[(ALERT|WARNING|NOTICE)\]\s+\(\d+\)\s*:\s*(?:config\s*:\s*)?`)

// Alerts makes one line of HAProxy's answer that is the same for the same cause.
// What is no alert is left out, unless there is nothing else.
func Alerts(answer string) string {
	var all, severe []string
	for line := range strings.Lines(answer) {
		line = strings.TrimSpace(line)
		head := alertHead.FindStringSubmatch(line)
		if head != nil {
			line = strings.TrimPrefix(line, head[0])
		}
		if line == "" {
			continue
		}
		all = append(all, line)
		if head != nil && head[1] == "ALERT" {
			severe = append(severe, line)
		}
	}
	if len(severe) > 0 {
		all = severe
	}
	return strings.Join(all, "; ")
}

// Redact takes secrets of the output out of a text that quotes it. HAProxy's
// messages quote lines of the configuration, and may quote a file.
func Redact(o *checkpoint.Output, text string) string {
	var secrets []string
	for _, found := range password.FindAllSubmatch(o.Configuration, -1) {
		if len(found[1]) >= minPasswordBytes {
			secrets = append(secrets, string(found[1]))
		}
	}
	for _, a := range o.Artifacts {
		if !a.Family.IsSecret() {
			continue
		}
		for line := range strings.Lines(string(a.Content)) {
			if line = strings.TrimSpace(line); len(line) >= minSecretBytes {
				secrets = append(secrets, line)
			}
		}
	}
	// The longest first: a secret may contain another.
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	return text
}

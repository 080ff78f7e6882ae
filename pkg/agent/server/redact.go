package server

import (
	"regexp"
	"strings"
)

// keyRun is what may be a line of a key. HAProxy quotes lines that it does not
// understand, and a template can put a key where none belongs.
var keyRun = regexp.MustCompile(`[A-Za-z0-9+/=]{32,}`)

const hidden = "(not shown)"

// hideKeys takes out of a message what looks like a line of a key. Paths, names
// and digests lack capitals, small letters or digits at such length.
func hideKeys(message string) string {
	return keyRun.ReplaceAllStringFunc(message, func(run string) string {
		for _, letters := range []string{"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "0123456789"} {
			if !strings.ContainsAny(run, letters) {
				return run
			}
		}
		return hidden
	})
}

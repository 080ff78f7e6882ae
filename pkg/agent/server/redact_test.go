package server

import (
	"strings"
	"testing"
)

func TestHideKeys(t *testing.T) {
	_, key := newAuthority(t).pair(t, "x")
	for line := range strings.Lines(string(key)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "-----") || len(line) < 40 {
			continue
		}
		if got := clip("unknown keyword '" + line + "' in section"); got != "unknown keyword '"+hidden+"' in section" {
			t.Errorf("a message still holds %d bytes", len(got))
		}
	}
	for _, plain := range []string{
		"[ALERT] (12) : config : parsing [/var/lib/holdfast/sets/s0/files/haproxy.cfg:10] : unknown keyword 'nonsense' in 'frontend' section",
		"file \"a\": declared as 4 bytes with digest 0123456789abcdef and sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"server aVeryLongNameOfABackendWithoutAnyNumberInIt", "", "größe",
	} {
		if got := clip(plain); got != plain {
			t.Errorf("%q became %q", plain, got)
		}
	}
}

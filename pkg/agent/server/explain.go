package server

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// explainTimeout bounds the check that only fetches a message.
const explainTimeout = 10 * time.Second

// explain finds words for a refusal. Before 2.7 the master gives none, so the
// binary is asked what it thinks of the same files. Its answer is never a gate:
// a check parses and does not bind, so it may well find nothing.
func explain(ctx context.Context, binary string, flags []string, l layout, id string) string {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	files := filepath.Join(l.set(id), setFiles)
	arguments := append([]string{"-c", "-f", filepath.Join(files, api.ConfigPath), "-f", filepath.Join(l.set(id), setNonce)}, flags...)
	check := exec.CommandContext(ctx, binary, arguments...)
	check.WaitDelay = time.Second
	output := &boundedBuffer{limit: api.MaxMessageBytes}
	check.Stdout, check.Stderr = output, output
	err := check.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "HAProxy refused the reload and gave no reason; its own check of the same files passes, " +
			"so look for an address or port in use, a limit or a permission"
	case ctx.Err() == nil && errors.As(err, &exit):
		return alerts(strings.ReplaceAll(output.String(), files+string(filepath.Separator), ""))
	default:
		return "HAProxy refused the reload and gave no reason, and its check could not be run to ask for one"
	}
}

// alerts keeps what refuses and drops warnings and notices around it.
func alerts(output string) string {
	var kept []string
	for line := range strings.SplitSeq(output, "\n") {
		if strings.HasPrefix(line, "[ALERT]") {
			kept = append(kept, line)
		}
	}
	if len(kept) == 0 {
		return clip(strings.TrimSpace(output))
	}
	return clip(strings.Join(kept, "\n"))
}

// clip cuts a message to what an answer may carry, at a character border, and
// leaves keys out.
func clip(message string) string {
	message = hideKeys(message)
	if len(message) <= api.MaxMessageBytes {
		return strings.ToValidUTF8(message, "?")
	}
	cut := api.MaxMessageBytes
	for cut > 0 && !utf8.RuneStart(message[cut]) {
		cut--
	}
	return strings.ToValidUTF8(message[:cut], "?")
}

// boundedBuffer keeps the end of what is written: refusals come last, after any
// number of warnings.
type boundedBuffer struct {
	limit int
	data  []byte
}

// Write takes everything and keeps the last limit bytes.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	b.data = append(b.data, p...)
	if over := len(b.data) - b.limit; over > 0 {
		b.data = bytes.Clone(b.data[over:])
	}
	return len(p), nil
}

func (b *boundedBuffer) String() string { return string(b.data) }

package node

import (
	"bytes"
	"context"
	"io"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-project/holdfast/test/cluster/internal/containerlog"
)

// Bounds of a termination message that is taken from the log, as the kubelet's.
const (
	lastWordsLines = 80
	lastWordsBytes = 2048
)

// lastWords are the end of the log of a run that ended badly, for a container
// whose policy asks for it. A termination file is not read.
func (c *container) lastWords(code int) string {
	if code == 0 || c.spec.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
		return ""
	}
	log := c.log.Read(context.Background(), containerlog.Options{Tail: lastWordsLines})
	defer log.Close()
	text, err := io.ReadAll(log)
	if err != nil {
		return ""
	}
	return string(bytes.ToValidUTF8(text[max(0, len(text)-lastWordsBytes):], nil))
}

package publish

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// TestMain lets the compressor make its channels outside of every bubble, since
// one bubble may not use another's.
func TestMain(m *testing.M) {
	text, packed := checkpoint.Store([]byte(strings.Repeat("a", 1<<10)), 1)
	if _, err := checkpoint.Load(text, packed, nil); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

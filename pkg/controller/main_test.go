package controller

import (
	"os"
	"strings"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// TestMain lets the compressor make its channels outside of every bubble, since
// one bubble may not use another's.
func TestMain(m *testing.M) {
	text, packed := checkpoint.Store([]byte(strings.Repeat("a", 1<<10)), 1)
	if _, err := checkpoint.Load(text, packed, nil); err != nil {
		panic(err)
	}
	// One of client-go's handlers sleeps for the time since the last error of any
	// bubble, whose clocks all begin in the same moment.
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

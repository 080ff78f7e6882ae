package viewfeed

import (
	"os"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// They compare times of one virtual clock with those of another, or of the real
	// one, and sleep the difference: a reflector would stand still for decades.
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

package conformance

import (
	"os"
	"testing"

	"github.com/holdfast-project/holdfast/test/owncluster"
)

func TestMain(m *testing.M) {
	os.Exit(owncluster.Cluster{Target: "conformance", Namespaces: []string{namespace}}.Main(m.Run))
}

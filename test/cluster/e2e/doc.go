// Package e2e starts a real development cluster and looks whether it keeps its
// promises. It needs a built binary: set DEVCLUSTER_BIN to it, else the tests
// are skipped. Run it as root and as an ordinary user; both must pass.
package e2e

// Command devcluster is a whole Kubernetes cluster in one binary and one
// directory, for development and acceptance tests. See README.md.
package main

import (
	"context"
	"os"

	"github.com/holdfast-project/holdfast/test/cluster/internal/cli"
	// Started as a container, this package takes over before main.
	_ "github.com/holdfast-project/holdfast/test/cluster/internal/process/entry"
)

func main() { os.Exit(cli.Main(context.Background(), os.Args)) }

// Package cli is devcluster's command line: up, down, status, env, exec and
// kubectl, and the hidden commands by which the binary starts its own parts.
package cli

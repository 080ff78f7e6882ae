// Package krew holds the test of what a release offers to Krew, kubectl's manager of
// plugins: archives, and a manifest that names them by their digests.
package krew

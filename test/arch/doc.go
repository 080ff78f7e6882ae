// Package arch holds the test that keeps imports in the direction the
// architecture gives them. It has no code of its own.
package arch

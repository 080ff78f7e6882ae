// Package containerlog keeps what one start of a container prints, line by line
// with its time, and reads it back the way kubectl logs asks for it.
//
// A log is bounded: beyond its limit the older half is forgotten. Standard
// output and standard error share one file and are not told apart.
package containerlog

//go:build race

package server

// raceEnabled says that the detector's own memory is in every measurement.
const raceEnabled = true

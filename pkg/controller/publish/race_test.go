//go:build race

package publish

// thin says that cases of one kind may stand for all: what the race detector
// looks for is in each of them, and it makes everything ten times slower.
const thin = true

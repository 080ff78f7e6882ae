//go:build !race

package publish

const thin = false

package main

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTargetLine(t *testing.T) {
	tests := []struct {
		name   string
		target target
		want   string
	}{
		{
			name:   "a floor that is reached exactly is met",
			target: target{name: "list-1000-time", value: 10, bound: 10, unit: "x", relation: floor},
			want:   "target list-1000-time value 10x bound >=10x ok",
		},
		{
			name:   "a value below its floor is missed",
			target: target{name: "list-1000-time", value: 9.5, bound: 10, unit: "x", relation: floor},
			want:   "target list-1000-time value 9.5x bound >=10x MISS",
		},
		{
			name:   "a value above its ceiling is missed",
			target: target{name: "memory-per-checkpoint", value: 24.126, bound: 24, unit: "KiB", relation: ceiling},
			want:   "target memory-per-checkpoint value 24.13KiB bound <=24KiB MISS",
		},
		{
			name:   "a count that must be exact is missed from below too",
			target: target{name: "intent-record-reads", value: 1, bound: 2, relation: equal},
			want:   "target intent-record-reads value 1 bound =2 MISS",
		},
		{
			name:   "what is no number meets nothing",
			target: target{name: "x", value: math.NaN(), bound: 1, relation: ceiling},
			want:   "target x value NaN bound <=1 MISS",
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.target.String()); diff != "" {
				t.Errorf("String() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	tests := []struct {
		name   string
		values []int
		share  float64
		want   int
	}{
		{name: "the p99 of a hundred is the second largest", values: hundred, share: 0.99, want: 99},
		{name: "everything is below the maximum", values: hundred, share: 1, want: 100},
		{name: "nothing is below the minimum", values: hundred, share: 0, want: 1},
		{name: "one value is every percentile", values: []int{7}, share: 0.5, want: 7},
		{name: "the median of three is the middle one", values: []int{3, 1, 2}, share: 0.5, want: 2},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := percentile(tc.values, tc.share); got != tc.want {
				t.Errorf("percentile(%v) = %d, want %d", tc.share, got, tc.want)
			}
		})
	}
}

package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller/election"
)

// intentRecords is how many records are counted; each must cost the same.
const intentRecords = 20

// measureIntent leads a real term and counts what its records ask of the API
// server: 2 reads, and 1 read-modify-write, which is a read and a write.
func measureIntent(ctx context.Context, c *cluster, _ settings, r *report) error {
	outputs, err := newOutputs(ctx, smallShape)
	if err != nil {
		return err
	}
	template, err := c.newTemplate(ctx, outputs, "bench-intent")
	if err != nil {
		return err
	}
	var records [][]call
	var durations []time.Duration
	err = c.lead(ctx, template, func(ctx context.Context, term *election.Term) error {
		asked := &tally{}
		ctx = withTally(ctx, asked)
		for i := range intentRecords {
			started := time.Now()
			name := fmt.Sprintf("%016x", i+1)
			if err := term.Record(ctx, name, name); err != nil {
				return err
			}
			durations = append(durations, time.Since(started))
			records = append(records, asked.take())
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, calls := range records[1:] {
		if !slices.Equal(calls, records[0]) {
			return fmt.Errorf("records differ: %v, and %v", records[0], calls)
		}
	}
	say("  each record: %v; median %s", records[0], median(durations))
	retained := checkpoint.RetainedStateLeaseName(template.Name)
	var reads, modified float64
	for _, asked := range records[0] {
		switch {
		case asked.method == http.MethodPut && asked.name == retained:
			modified++
		case asked.method == http.MethodGet && asked.name != retained:
			reads++
		}
	}
	r.add(target{name: "intent-record-reads", value: reads, bound: 2, relation: equal})
	r.add(target{name: "intent-record-modifications", value: modified, bound: 1, relation: equal})
	r.add(target{name: "intent-record-requests", value: float64(len(records[0])), bound: 4, relation: equal})
	return nil
}

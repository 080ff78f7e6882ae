package containerlog

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func written(t *testing.T, text string) *Log {
	t.Helper()
	log, output, err := New(filepath.Join(t.TempDir(), "c.log"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(output, text); err != nil {
		t.Fatal(err)
	}
	if err := output.Close(); err != nil {
		t.Fatal(err)
	}
	<-log.Done()
	return log
}

func TestRead(t *testing.T) {
	tests := []struct {
		name    string
		text    string
		options Options
		want    string
	}{
		{name: "everything", text: "a\nb\nc\n", options: Options{Tail: -1}, want: "a\nb\nc\n"},
		{name: "the last lines", text: "a\nb\nc\n", options: Options{Tail: 2}, want: "b\nc\n"},
		{name: "a last line without its end", text: "a\nb", options: Options{Tail: -1}, want: "a\nb\n"},
		{name: "no more than the limit", text: "abc\ndef\n", options: Options{Tail: -1, LimitBytes: 5}, want: "abc\nd"},
		{name: "nothing from before", text: "a\n", options: Options{Tail: -1, Since: time.Now().Add(time.Hour)}, want: ""},
		{name: "following an ended container ends", text: "a\n", options: Options{Tail: -1, Follow: true}, want: "a\n"},
		{name: "a line longer than memory allows is split, not lost", text: strings.Repeat("x", maxLineBytes+1) + "\n", options: Options{Tail: 1}, want: "x\n"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			stream := written(t, tc.text).Read(t.Context(), tc.options)
			defer stream.Close()
			got, err := io.ReadAll(stream)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTimestampsComeFirst(t *testing.T) {
	stream := written(t, "hello\n").Read(t.Context(), Options{Tail: -1, Timestamps: true})
	defer stream.Close()
	got, err := io.ReadAll(stream)
	if err != nil {
		t.Fatal(err)
	}
	stamp, text, _ := strings.Cut(string(got), " ")
	if _, err := time.Parse(time.RFC3339Nano, stamp); err != nil || text != "hello\n" {
		t.Errorf("got %q, want a time and the line", got)
	}
}

func TestFollowSeesLinesAcrossRotation(t *testing.T) {
	log, output, err := New(filepath.Join(t.TempDir(), "c.log"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	stream := log.Read(ctx, Options{Tail: -1, Follow: true})
	defer stream.Close()
	lines := bufio.NewScanner(stream)
	filler := strings.Repeat("x", 1<<10)
	go func() {
		defer output.Close()
		for range maxFileBytes/len(filler) + 100 {
			_, _ = io.WriteString(output, filler+"\n")
		}
		_, _ = io.WriteString(output, "last\n")
	}()
	count, last := 0, ""
	for lines.Scan() {
		count++
		last = lines.Text()
	}
	if want := maxFileBytes/len(filler) + 101; count != want || last != "last" {
		t.Errorf("followed %d lines ending in %.10q, want %d ending in \"last\"", count, last, want)
	}
}

func TestALineWhoseWriteIsUnderWayIsKeptForLater(t *testing.T) {
	lines, half := splitWhole([]byte("one\ntwo\nthr"))
	if len(lines) != 2 || string(lines[1]) != "two\n" || string(half) != "thr" {
		t.Errorf("split into %q and %q, want two lines and \"thr\"", lines, half)
	}
	if lines, half = splitWhole(append(half, "ee\n"...)); len(lines) != 1 || string(lines[0]) != "three\n" || len(half) != 0 {
		t.Errorf("the rest splits into %q and %q, want \"three\"", lines, half)
	}
}

package containerlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Options are those of kubectl logs.
type Options struct {
	// Tail is the number of last lines wanted; negative means all.
	Tail int
	// LimitBytes ends the answer; zero means no limit.
	LimitBytes int
	Timestamps bool
	Follow     bool
	Since      time.Time
}

// Read answers the log as a stream. The context ends a followed one.
func (l *Log) Read(ctx context.Context, options Options) io.ReadCloser {
	read, write := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_ = write.CloseWithError(l.copy(ctx, write, options))
	}()
	return &stream{PipeReader: read, cancel: cancel}
}

// stream ends the copying goroutine when its reader goes away.
type stream struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (s *stream) Close() error {
	s.cancel()
	return s.PipeReader.Close()
}

func (l *Log) copy(ctx context.Context, to io.Writer, options Options) error {
	out := &printer{to: to, options: options, left: options.LimitBytes}
	turn, _, _ := l.state()
	file, err := os.Open(l.path)
	if err != nil {
		return fmt.Errorf("opening log: %w", err)
	}
	defer func() { _ = file.Close() }()
	older, err := readAll(l.path + ".1")
	if err != nil {
		return err
	}
	current, err := io.ReadAll(file)
	if err != nil {
		return fmt.Errorf("reading log: %w", err)
	}
	whole, half := splitWhole(current)
	lines := append(older, whole...)
	if options.Tail >= 0 && len(lines) > options.Tail {
		lines = lines[len(lines)-options.Tail:]
	}
	for _, line := range lines {
		if err := out.print(line); err != nil {
			return ended(err)
		}
	}
	if !options.Follow {
		return nil
	}
	return ended(l.follow(ctx, out, &position{file: file, turn: turn, half: half}))
}

// position is where a reader is: in which file, and what it has of a line whose
// rest was not written yet when it read.
type position struct {
	file *os.File
	turn int
	half []byte
}

// follow prints what is appended, and moves on when the file was rotated away.
func (l *Log) follow(ctx context.Context, out *printer, at *position) error {
	defer func() { _ = at.file.Close() }()
	for {
		now, over, changed := l.state()
		rest, err := io.ReadAll(at.file)
		if err != nil {
			return fmt.Errorf("reading log: %w", err)
		}
		var lines [][]byte
		lines, at.half = splitWhole(append(at.half, rest...))
		for _, line := range lines {
			if err := out.print(line); err != nil {
				return err
			}
		}
		if now != at.turn {
			_ = at.file.Close()
			if at.file, err = os.Open(l.path); err != nil {
				return fmt.Errorf("opening log: %w", err)
			}
			at.turn, at.half = now, nil
			continue
		}
		if over {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// errLimit ends an answer that reached its limit.
var errLimit = errors.New("limit reached")

func ended(err error) error {
	if errors.Is(err, errLimit) {
		return nil
	}
	return err
}

type printer struct {
	to      io.Writer
	options Options
	left    int
}

func (p *printer) print(line []byte) error {
	stamp, text, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return nil
	}
	if !p.options.Since.IsZero() {
		when, err := time.Parse(stampLayout, string(stamp))
		if err == nil && when.Before(p.options.Since) {
			return nil
		}
	}
	if p.options.Timestamps {
		text = line
	}
	if p.options.LimitBytes > 0 {
		if len(text) > p.left {
			text = text[:p.left]
		}
		p.left -= len(text)
	}
	if _, err := p.to.Write(text); err != nil {
		return err
	}
	if p.options.LimitBytes > 0 && p.left == 0 {
		return errLimit
	}
	return nil
}

func readAll(path string) ([][]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading log: %w", err)
	}
	lines, _ := splitWhole(text)
	return lines, nil
}

// splitWhole answers whole lines, and the start of one whose write was still
// under way: a reader can see a part of it.
func splitWhole(text []byte) (lines [][]byte, half []byte) {
	for {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			return lines, bytes.Clone(text)
		}
		lines = append(lines, text[:end+1])
		text = text[end+1:]
	}
}

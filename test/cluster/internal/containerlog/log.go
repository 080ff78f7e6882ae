package containerlog

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"time"
)

const (
	// maxFileBytes is the size at which a file becomes the older half.
	maxFileBytes = 8 << 20
	// maxLineBytes splits lines that would not fit into memory.
	maxLineBytes = 64 << 10
	stampLayout  = "2006-01-02T15:04:05.000000000Z07:00"
)

// Log is written by one container start and read by anybody.
type Log struct {
	path string
	done chan struct{}

	mu      sync.Mutex
	file    *os.File
	size    int64
	turn    int
	changed chan struct{}
	ended   bool
}

// New creates a log and the file that the container writes into. The caller
// closes that file after the start; the log ends when the container has.
func New(path string) (*Log, *os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("creating log: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		_ = file.Close()
		return nil, nil, fmt.Errorf("creating log pipe: %w", err)
	}
	l := &Log{path: path, file: file, changed: make(chan struct{}), done: make(chan struct{})}
	go l.collect(read)
	return l, write, nil
}

// Done is closed when everything the container printed is stored.
func (l *Log) Done() <-chan struct{} { return l.done }

func (l *Log) collect(from *os.File) {
	defer close(l.done)
	defer from.Close()
	lines := bufio.NewReaderSize(from, maxLineBytes)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			l.append(time.Now(), line)
		}
		if err != nil && err != bufio.ErrBufferFull {
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	_ = l.file.Close()
	close(l.changed)
}

func (l *Log) append(now time.Time, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > maxFileBytes {
		l.rotate()
	}
	entry := now.UTC().AppendFormat(nil, stampLayout)
	entry = append(entry, ' ')
	entry = append(entry, line...)
	if line[len(line)-1] != '\n' {
		entry = append(entry, '\n')
	}
	// A full disk must not stop the container.
	n, _ := l.file.Write(entry)
	l.size += int64(n)
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Log) rotate() {
	next := l.path + ".next"
	file, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_ = os.Rename(l.path, l.path+".1")
	_ = os.Rename(next, l.path)
	_ = l.file.Close()
	l.file, l.size = file, 0
	l.turn++
}

// state answers what a reader at the end of its file must know.
func (l *Log) state() (turn int, ended bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turn, l.ended, l.changed
}

package aggregation

import (
	"bytes"
	"sync"
)

// log is what a process writes, and can be read meanwhile.
type log struct {
	lock sync.Mutex
	text bytes.Buffer
}

// Write is for the process.
func (l *log) Write(p []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.String()
}

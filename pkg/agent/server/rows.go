package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
)

// maxRowBytes bounds one line of a map file or of HAProxy's answer.
const maxRowBytes = 1 << 20

// patternFile is a map or a list that the worker has loaded from a file.
type patternFile struct{ ID, Path string }

// patternFiles reads the answer to "show map" or "show acl". What was not loaded
// from a file has no row of interest.
func patternFiles(answer string) []patternFile {
	var files []patternFile
	for line := range strings.SplitSeq(answer, "\n") {
		id, rest, ok := strings.Cut(line, " (")
		if !ok || id == "" || strings.Trim(id, "0123456789") != "" {
			continue
		}
		path, _, ok := strings.Cut(rest, ") pattern loaded from file")
		if ok {
			files = append(files, patternFile{ID: id, Path: path})
		}
	}
	return files
}

// mapRow is a key and its value, which is all that follows the first space or tab.
type mapRow []byte

func (r mapRow) is(other mapRow) bool {
	if bytes.Equal(r, other) {
		return true // as nearly all are
	}
	key, value := r.cut()
	otherKey, otherValue := other.cut()
	return bytes.Equal(key, otherKey) && bytes.Equal(value, otherValue)
}

func (r mapRow) cut() (key, value []byte) {
	end := bytes.IndexAny(r, " \t")
	if end < 0 {
		return r, nil
	}
	return r[:end], bytes.Trim(r[end:], " \t")
}

// blanks are what HAProxy skips around keys and values.
const blanks = " \t\r"

// fileRow is one line of a map file as HAProxy understands it. It reports false
// for a line that is none.
func fileRow(line []byte) (mapRow, bool) {
	line = bytes.Trim(line, blanks)
	if len(line) == 0 || line[0] == '#' {
		return nil, false
	}
	return line, true
}

// workerRow is one line of the worker's answer, which starts with an address.
func workerRow(line []byte) (mapRow, bool) {
	_, line, ok := bytes.Cut(line, []byte(" "))
	return bytes.Trim(line, blanks), ok
}

// sameRows compares a file with what the worker has, in order: duplicates and
// the order of rows decide what a map answers. Rows are named by number alone,
// because values may be nobody's business.
func sameRows(file, worker io.Reader) error {
	mine, theirs := newRows(file, fileRow), newRows(worker, workerRow)
	for number := 1; ; number++ {
		want, more, err := mine.next()
		if err != nil {
			return fmt.Errorf("reading row %d of the file: %w", number, err)
		}
		got, moreThere, err := theirs.next()
		if err != nil {
			return err
		}
		switch {
		case !moreThere && !theirs.ended:
			return io.ErrUnexpectedEOF // every whole answer ends with an empty line
		case !more && !moreThere:
			return nil
		case more != moreThere:
			return &driftError{what: fmt.Sprintf("rows end at %d in one and go on in the other", number)}
		case !got.is(want):
			return &driftError{what: fmt.Sprintf("row %d differs", number)}
		}
	}
}

// driftError says that the worker was read and is not what its files say.
type driftError struct {
	invariant string
	what      string
}

func (e *driftError) Error() string { return e.what }

type rows struct {
	scanner *bufio.Scanner
	parse   func([]byte) (mapRow, bool)
	ended   bool // the last line was empty
}

func newRows(reader io.Reader, parse func([]byte) (mapRow, bool)) *rows {
	return &rows{scanner: newLines(reader), parse: parse}
}

// newLines reads line by line, many of them at a time.
func newLines(reader io.Reader) *bufio.Scanner {
	scanner := bufio.NewScanner(reader)
	scanner.Buffer(make([]byte, 64<<10), maxRowBytes)
	return scanner
}

// next is the next row, which is good until the one after it.
func (r *rows) next() (mapRow, bool, error) {
	for r.scanner.Scan() {
		r.ended = len(r.scanner.Bytes()) == 0
		if row, ok := r.parse(r.scanner.Bytes()); ok {
			return row, true, nil
		}
	}
	return nil, false, r.scanner.Err()
}

package inspect

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Bounds of what is read. A stored object has at most some 1.5 MiB, so that
// none of these is met by accident.
const (
	// maxDocument bounds one document, which may be a List of everything.
	maxDocument = 128 << 20
	// maxInput bounds all documents together; they are held in memory.
	maxInput = 1 << 30
	// maxObjects bounds how many objects are looked at.
	maxObjects = 200_000
)

// errTooLarge says which bound was met.
var errTooLarge = errors.New("input is too large")

// allowance is how much may still be read.
type allowance struct {
	bytes, objects int64
}

func newAllowance() *allowance { return &allowance{bytes: maxInput, objects: maxObjects} }

func (a *allowance) spend(bytes int) error {
	if a.bytes -= int64(bytes); a.bytes < 0 {
		return fmt.Errorf("%w: more than %d bytes in all", errTooLarge, int64(maxInput))
	}
	return nil
}

func (a *allowance) object() error {
	if a.objects--; a.objects < 0 {
		return fmt.Errorf("%w: more than %d objects", errTooLarge, maxObjects)
	}
	return nil
}

// eachDocument splits a stream at YAML's document marks, which no JSON text can
// have at the start of a line, and calls take with every document that is not
// blank. The bytes are valid until take returns.
func eachDocument(r io.Reader, a *allowance, take func(number int, document []byte) error) error {
	lines := bufio.NewReaderSize(r, 64<<10)
	var document []byte
	number := 0
	finish := func() error {
		defer func() { document = document[:0] }()
		if isBlank(document) {
			return nil
		}
		number++
		return take(number, document)
	}
	lineStart := true
	for {
		part, err := lines.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if spent := a.spend(len(part)); spent != nil {
			return spent
		}
		if rest, mark := afterMark(part); lineStart && mark {
			if err := finish(); err != nil {
				return err
			}
			part = rest
		}
		lineStart = !errors.Is(err, bufio.ErrBufferFull)
		if len(document)+len(part) > maxDocument {
			return fmt.Errorf("%w: a document of more than %d bytes", errTooLarge, maxDocument)
		}
		document = append(document, part...)
		if errors.Is(err, io.EOF) {
			return finish()
		}
	}
}

// afterMark is what follows a document mark on its line.
func afterMark(line []byte) (rest []byte, found bool) {
	for _, mark := range [...]string{"---", "..."} {
		rest, ok := bytes.CutPrefix(line, []byte(mark))
		if ok && (len(rest) == 0 || bytes.ContainsRune([]byte(" \t\r\n"), rune(rest[0]))) {
			return rest, true
		}
	}
	return nil, false
}

// isBlank tells documents without content: comments, directives, white space.
func isBlank(document []byte) bool {
	for line := range bytes.Lines(document) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

var (
	utf8Mark  = []byte("\xef\xbb\xbf")
	utf16Mark = [...][]byte{[]byte("\xff\xfe"), []byte("\xfe\xff")}
)

// toJSON is the document as JSON, whichever of the two it is.
func toJSON(document []byte) ([]byte, error) {
	for _, mark := range utf16Mark {
		if bytes.HasPrefix(document, mark) {
			// What PowerShell's redirection writes.
			return nil, errors.New("is UTF-16, only UTF-8 is read")
		}
	}
	document = bytes.TrimPrefix(document, utf8Mark)
	if trimmed := bytes.TrimLeft(document, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		return document, nil
	}
	return yamlToJSON(document)
}

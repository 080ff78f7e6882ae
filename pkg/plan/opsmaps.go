package plan

import (
	"strings"
	"unicode/utf8"
)

// maxRowOperations is up to how many rows are changed one by one. A versioned
// replace costs about as much as that, and is seen by clients all at once.
const maxRowOperations = 100

// maxRowBytes is the longest row that is part of an operation. A thousand of
// them, each letter escaped, leave room in a request for everything else.
const maxRowBytes = 256

// mapFile covers a map whose file changed.
func (c *composition) mapFile(path string) bool {
	was, known := c.from.Maps[path]
	now, alsoKnown := c.to.Maps[path]
	if known && alsoKnown {
		if ops, ok := rowOperations(path, was.Entries, now.Entries); ok {
			return c.add(ops...)
		}
	}
	return c.add(Operation{Kind: OpMapReplace, Path: path})
}

// rowOperations changes single rows, if that leads to the same rows in the same
// order: a key names all its rows at once, and a new row is always the last.
func rowOperations(path string, was, now []MapEntry) ([]Operation, bool) {
	before, after := countKeys(was), countKeys(now)
	var kept []MapEntry
	var deletes, sets, adds []Operation
	for _, row := range was {
		if after[row.Key] > 0 {
			kept = append(kept, row)
			continue
		}
		if before[row.Key] > 1 || !isPlainText(row.Key) || len(row.Key) > maxRowBytes {
			return nil, false
		}
		deletes = append(deletes, Operation{Kind: OpMapDelete, Path: path, Key: row.Key})
	}
	if len(kept) > len(now) {
		return nil, false
	}
	for i, row := range now {
		op := Operation{Path: path, Key: row.Key, Value: row.Value}
		switch {
		case i < len(kept) && kept[i] == row:
			continue
		case !isPlainText(row.Key) || !isPlainText(row.Value) || len(row.Key)+len(row.Value) > maxRowBytes:
			return nil, false
		case i >= len(kept):
			op.Kind = OpMapAdd
			adds = append(adds, op)
		// A row without a value can be loaded and added, and not be set.
		case kept[i].Key != row.Key || before[row.Key] > 1 || after[row.Key] > 1 || row.Value == "":
			return nil, false
		default:
			op.Kind = OpMapSet
			sets = append(sets, op)
		}
	}
	if len(deletes)+len(sets)+len(adds) > maxRowOperations {
		return nil, false
	}
	return append(append(deletes, sets...), adds...), true
}

func countKeys(rows []MapEntry) map[string]int {
	counts := make(map[string]int, len(rows))
	for _, row := range rows {
		counts[row.Key]++
	}
	return counts
}

// isPlainText reports that a text survives JSON and one line. What does not is
// taken from the file.
func isPlainText(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 && r != '\t' || r == 0x7f || r == utf8.RuneError })
}

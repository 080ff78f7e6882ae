package server

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

// mapID is the number of a map. Its path may hold what the command line reads as
// more than a letter.
func (o *operator) mapID(ctx context.Context, file string) (string, error) {
	if o.maps == nil {
		answer, err := o.ask(ctx, "show map")
		if err != nil {
			return "", err
		}
		o.maps = make(map[string]string)
		for _, loaded := range patternFiles(answer) {
			o.maps[loaded.Path] = loaded.ID
		}
	}
	names := make([]string, 0, len(o.maps))
	for name := range o.maps {
		names = append(names, name)
	}
	if err := known(names, file); err != nil {
		return "", err
	}
	return "#" + o.maps[file], nil
}

func (o *operator) changeRow(ctx context.Context, op plan.Operation) error {
	id, err := o.mapID(ctx, op.Path)
	if err != nil {
		return err
	}
	switch op.Kind {
	case plan.OpMapSet:
		return o.quiet(ctx, "set map "+id+" "+escape(op.Key)+" "+escape(op.Value))
	case plan.OpMapDelete:
		return o.quiet(ctx, "del map "+id+" "+escape(op.Key))
	}
	// As a payload, because an argument cannot be empty.
	return o.quiet(ctx, "add map "+id+" <<\n"+op.Key+" "+op.Value+"\n")
}

// escape makes one argument of a text.
func escape(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		letter := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
		if !letter && !strings.ContainsRune("-_.:/", rune(c)) {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// replaceMap fills a new version of a map from its file and has it take the place
// of the old one at once.
func (o *operator) replaceMap(ctx context.Context, file string) error {
	id, err := o.mapID(ctx, file)
	if err != nil {
		return err
	}
	answer, err := o.ask(ctx, "prepare map "+id)
	if err := expect(answer, err, "New version created: "); err != nil {
		return err
	}
	version := "@" + strings.TrimSpace(strings.TrimPrefix(answer, "New version created: ")) + " "
	err = o.fillMap(ctx, file, "add map "+version+id+" <<\n")
	if err == nil {
		return o.quiet(ctx, "commit map "+version+id)
	}
	cleared, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	_ = o.quiet(cleared, "clear map "+version+id) // nobody sees that version
	return err
}

// fillMap adds the rows of a file, as many at once as fit.
func (o *operator) fillMap(ctx context.Context, file, command string) error {
	content, err := o.root.Open(file)
	if err != nil {
		return err
	}
	defer content.Close()
	scanner := newLines(content)
	var payload strings.Builder
	flush := func() error {
		if payload.Len() == 0 {
			return nil
		}
		defer payload.Reset()
		return o.quiet(ctx, command+payload.String())
	}
	for scanner.Scan() {
		row, ok := fileRow(scanner.Bytes())
		if !ok {
			continue
		}
		key, value := row.cut()
		// With the space also if the value is empty, which it would be missing without.
		if payload.Len()+len(key)+len(value)+2 > api.MaxLineBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		fmt.Fprintf(&payload, "%s %s\n", key, value)
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	return flush()
}

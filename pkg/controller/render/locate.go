package render

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
)

// A place mark stands before each piece of a template that prints, in a second
// render that is made only when a line of the output is refused.
var placeMark = regexp.MustCompile("\x02([^\x02\x03:]+):(\\d+)\x03")

// Place is a line of a template.
type Place struct {
	Template string
	Line     int
}

func (p Place) String() string { return fmt.Sprintf("%s line %d", p.Template, p.Line) }

// Locate finds where a line of the rendered configuration comes from. It
// renders once more with marks and answers only if the marks changed nothing
// else, so a wrong place is never named.
func (r *Renderer) Locate(ctx context.Context, snapshot Snapshot, line int) (Place, bool) {
	if line < 1 {
		return Place{}, false
	}
	now, err := r.start(ctx, snapshot, nil)
	if err != nil {
		return Place{}, false
	}
	now.collects = true
	plain, err := now.file(configTemplate, r.context)
	if err != nil {
		return Place{}, false
	}
	marked, err := r.start(ctx, snapshot, nil)
	if err != nil {
		return Place{}, false
	}
	if marked.set, err = r.withMarks(); err != nil {
		return Place{}, false
	}
	marked.set.Funcs(marked.functions())
	marked.collects = true
	text, err := marked.file(configTemplate, r.context)
	if err != nil || !bytes.Equal(placeMark.ReplaceAll(text, nil), plain) {
		return Place{}, false
	}
	return marked.placeOf(text, line)
}

// placeOf walks the marked text and counts the lines that its backends become.
func (r *run) placeOf(text []byte, line int) (Place, bool) {
	var last Place
	number := 1
	for piece := range bytes.Lines(text) {
		plain := placeMark.ReplaceAll(piece, nil)
		lines := 1
		if mark := backendMark.FindSubmatch(plain); mark != nil {
			if n, err := strconv.Atoi(string(mark[1])); err == nil && n < len(r.backends) {
				lines = strings.Count(r.backends[n].text, "\n")
			}
		}
		first, at := marksOf(piece, last)
		if line < number+lines {
			return first, first.Template != ""
		}
		last = at
		number += lines
	}
	return Place{}, false
}

// marksOf tells the place of a line's first word and that of its end.
func marksOf(piece []byte, before Place) (first, last Place) {
	last = before
	from, found := 0, false
	for _, at := range placeMark.FindAllSubmatchIndex(piece, -1) {
		if !found && len(bytes.TrimSpace(piece[from:at[0]])) > 0 {
			first, found = last, true
		}
		line, _ := strconv.Atoi(string(piece[at[4]:at[5]])) // the pattern admits digits only
		last = Place{Template: string(piece[at[2]:at[3]]), Line: line}
		from = at[1]
	}
	if !found {
		first = last
	}
	return first, last
}

// withMarks copies the templates with marks in them.
func (r *Renderer) withMarks() (*template.Template, error) {
	set, err := r.set.Clone()
	if err != nil {
		return nil, err
	}
	out := template.New("").Option("missingkey=error").Funcs(fixedFunctions()).Funcs((&run{}).functions())
	for _, t := range set.Templates() {
		tree := t.Tree.Copy()
		m := &marker{source: r.sources[tree.ParseName], name: tree.ParseName}
		m.list(tree.Root)
		if _, err := out.AddParseTree(t.Name(), tree); err != nil {
			return nil, err
		}
	}
	return out, nil
}

type marker struct{ name, source string }

func (m *marker) list(l *parse.ListNode) {
	if l == nil {
		return
	}
	var nodes []parse.Node
	for _, node := range l.Nodes {
		switch n := node.(type) {
		case *parse.TextNode:
			nodes = append(nodes, m.text(n)...)
			continue
		case *parse.ActionNode:
			nodes = append(nodes, m.mark(n.Pos, n.Line))
		case *parse.TemplateNode:
			nodes = append(nodes, m.mark(n.Pos, n.Line))
		case *parse.IfNode:
			m.list(n.List)
			m.list(n.ElseList)
		case *parse.RangeNode:
			m.list(n.List)
			m.list(n.ElseList)
		case *parse.WithNode:
			m.list(n.List)
			m.list(n.ElseList)
		}
		nodes = append(nodes, node)
	}
	l.Nodes = nodes
}

// text marks each line of a text apart.
func (m *marker) text(n *parse.TextNode) []parse.Node {
	if int(n.Pos) > len(m.source) {
		return []parse.Node{n}
	}
	line := 1 + strings.Count(m.source[:n.Pos], "\n")
	var nodes []parse.Node
	for piece := range bytes.Lines(n.Text) {
		nodes = append(nodes, m.mark(n.Pos, line), &parse.TextNode{NodeType: parse.NodeText, Pos: n.Pos, Text: piece})
		line++
	}
	return nodes
}

func (m *marker) mark(pos parse.Pos, line int) parse.Node {
	return &parse.TextNode{NodeType: parse.NodeText, Pos: pos, Text: fmt.Appendf(nil, "\x02%s:%d\x03", m.name, line)}
}

// placed turns a refusal of an output line into one of a template line where
// that can be told.
func (r *Renderer) placed(ctx context.Context, snapshot Snapshot, problem *Error) *Error {
	if !problem.Output || problem.Line == 0 {
		return problem
	}
	if place, ok := r.Locate(ctx, snapshot, problem.Line); ok {
		problem.Err = fmt.Errorf("rendered line %d: %w", problem.Line, problem.Err)
		problem.Template, problem.Line, problem.Output = place.Template, place.Line, false
	}
	return problem
}

package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// Folders of an output's files, relative to the set.
const (
	mapsFolder  = "maps/"
	filesFolder = "files/"
	certsFolder = "ssl/"
)

// configTemplate is the name under which errors speak of the main template.
const configTemplate = "haproxyConfig"

// reservedValue is the one top-level value that extraContext cannot set.
const reservedValue = "template"

// Renderer is a template object, understood. It is safe for concurrent use, and
// gives the same for the same whatever it rendered before.
type Renderer struct {
	set     *template.Template
	context map[string]any
	files   []fileTemplate
	// sources are the texts by template name, for finding lines.
	sources map[string]string
	// declared are the paths of all files, for the helpers and the checks.
	declared map[string]bool
	// documents are the fetched texts by name.
	documents map[string]string
	// memory is of the last render, whichever documents it had.
	memory *memory
}

// With is the same Renderer for these fetched documents, by the names that
// httpResources gives them.
func (r *Renderer) With(documents map[string]string) *Renderer {
	with := *r
	with.documents = documents
	return &with
}

// fileTemplate is one file that the template object declares. Its path is the
// name of its template too.
type fileTemplate struct {
	path   string
	family checkpoint.Family
}

// Compile parses everything once. Its errors cannot be cured by data.
func Compile(template *v1alpha1.HAProxyTemplateConfig) (*Renderer, error) {
	r := &Renderer{declared: map[string]bool{}, memory: newMemory()}
	spec := &template.Spec
	var err error
	if r.context, err = topLevel(template); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(spec.WatchedResources)) {
		if err := checkResource(name, spec.WatchedResources[name]); err != nil {
			return nil, err
		}
		if _, err := parsePaths(name, spec.WatchedResources[name].IndexBy); err != nil {
			return nil, err
		}
	}
	sources := map[string]string{configTemplate: spec.HAProxyConfig.Template}
	for _, group := range []struct {
		folder    string
		family    checkpoint.Family
		templates map[string]v1alpha1.Template
	}{
		{mapsFolder, checkpoint.Map, spec.Maps},
		{filesFolder, checkpoint.General, spec.Files},
		{certsFolder, checkpoint.Certificate, spec.SSLCertificates},
	} {
		for _, name := range slices.Sorted(maps.Keys(group.templates)) {
			path := group.folder + name
			if err := checkFileName(path, name); err != nil {
				return nil, err
			}
			sources[path] = group.templates[name].Template
			r.files = append(r.files, fileTemplate{path: path, family: group.family})
			r.declared[path] = true
		}
	}
	if len(r.files) >= api.MaxFiles {
		return nil, tooLarge("", "%d files exceed the limit of %d", len(r.files)+1, api.MaxFiles)
	}
	for name, snippet := range spec.TemplateSnippets {
		if _, taken := sources[name]; taken {
			return nil, invalid(name, "the snippet has the name of a file")
		}
		sources[name] = snippet.Template
	}
	r.sources = sources
	return r, r.parse(sources)
}

// parse reads each source apart and refuses a name that is defined twice, which
// text/template would let the later one win.
func (r *Renderer) parse(sources map[string]string) error {
	declarations := fixedFunctions()
	maps.Copy(declarations, (&run{}).functions())
	r.set = template.New("").Option("missingkey=error").Funcs(declarations)
	definedIn := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		if strings.ContainsAny(name, ": \t\n\"") {
			return invalid("", "the snippet name %q must hold no space, colon or quote", name)
		}
		parsed, err := template.New(name).Funcs(declarations).Parse(sources[name])
		if err != nil {
			return parseError(name, err)
		}
		for _, t := range parsed.Templates() {
			if other, ok := definedIn[t.Name()]; ok {
				return invalid(name, "%q is defined here and in %s", t.Name(), other)
			}
			if _, isSource := sources[t.Name()]; isSource && t.Name() != name {
				return invalid(name, "define %q would replace the template of that name", t.Name())
			}
			definedIn[t.Name()] = name
			watchElements(t.Tree)
			if _, err := r.set.AddParseTree(t.Name(), t.Tree); err != nil {
				return invalid(name, "%w", err)
			}
		}
		if parsed.Lookup(name) == nil || parsed.Tree == nil {
			// A source of comments and definitions alone has no tree.
			empty := &parse.Tree{Name: name, Root: &parse.ListNode{NodeType: parse.NodeList}}
			if _, err := r.set.AddParseTree(name, empty); err != nil {
				return invalid(name, "%w", err)
			}
		}
	}
	return nil
}

// topLevel are the values that templates see at the top.
func topLevel(t *v1alpha1.HAProxyTemplateConfig) (map[string]any, error) {
	values := map[string]any{}
	if extra := t.Spec.TemplatingSettings.ExtraContext; extra != nil && len(extra.Raw) > 0 {
		if err := utiljson.Unmarshal(extra.Raw, &values); err != nil {
			return nil, invalid("", "templatingSettings.extraContext: %w", err)
		}
	}
	if _, taken := values[reservedValue]; taken {
		return nil, invalid("", "templatingSettings.extraContext: %q is set by the controller", reservedValue)
	}
	if values == nil { // extraContext: null
		values = map[string]any{}
	}
	values[reservedValue] = map[string]any{"name": t.Name, "namespace": t.Namespace}
	return values, nil
}

// checkFileName keeps one file one element of a path, the same on every system
// that stores it and the same word for HAProxy.
func checkFileName(path, name string) error {
	if err := api.ValidatePath(path); err != nil {
		return invalid(path, "file name %w", err)
	}
	if strings.ContainsAny(name, "/ \t\"'#$,;:()[]{}<>|*?&`") {
		return invalid(path, "file name %q may hold letters, digits and . _ - + = @ only", name)
	}
	return nil
}

// watchElements makes every range and with of a tree tell the render which
// value it walks, so that an error can name the watched object. Nothing is
// printed by it.
func watchElements(tree *parse.Tree) {
	if tree == nil || tree.Root == nil {
		return
	}
	w := &watcher{tree: tree}
	w.list(tree.Root)
}

type watcher struct {
	tree *parse.Tree
	next int
}

func (w *watcher) list(l *parse.ListNode) {
	if l == nil {
		return
	}
	nodes := make([]parse.Node, 0, len(l.Nodes))
	for _, node := range l.Nodes {
		nodes = append(nodes, node)
		switch n := node.(type) {
		case *parse.RangeNode:
			nodes = append(nodes, w.branch(&n.BranchNode))
		case *parse.WithNode:
			nodes = append(nodes, w.branch(&n.BranchNode))
		case *parse.IfNode:
			w.list(n.List)
			w.list(n.ElseList)
		}
	}
	l.Nodes = nodes
}

// branch adds the telling at the start of the body and returns what ends it.
func (w *watcher) branch(b *parse.BranchNode) parse.Node {
	w.next++
	mark := fmt.Sprintf("%s#%d", w.tree.Name, w.next)
	w.list(b.List)
	w.list(b.ElseList)
	enter := w.call(b, enterFunction, mark, &parse.DotNode{NodeType: parse.NodeDot, Pos: b.Pos})
	b.List.Nodes = append([]parse.Node{enter}, b.List.Nodes...)
	return w.call(b, leaveFunction, mark)
}

func (w *watcher) call(at *parse.BranchNode, function, mark string, more ...parse.Node) parse.Node {
	pos, line := at.Pos, at.Line
	text := &parse.StringNode{NodeType: parse.NodeString, Pos: pos, Quoted: fmt.Sprintf("%q", mark), Text: mark}
	args := append([]parse.Node{parse.NewIdentifier(function).SetTree(w.tree).SetPos(pos), text}, more...)
	command := &parse.CommandNode{NodeType: parse.NodeCommand, Pos: pos, Args: args}
	pipe := &parse.PipeNode{NodeType: parse.NodePipe, Pos: pos, Line: line, Cmds: []*parse.CommandNode{command}}
	return &parse.ActionNode{NodeType: parse.NodeAction, Pos: pos, Line: line, Pipe: pipe}
}

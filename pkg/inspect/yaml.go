package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// maxNesting bounds how deep values are nested; stored objects stay under ten.
	maxNesting = 100
	// maxMarks bounds the characters of a YAML document that can start a node,
	// since every node costs some hundred bytes however short it is.
	maxMarks = 8 << 20
)

// yamlToJSON translates one document. Anchors and aliases are refused: nothing
// that writes Kubernetes objects uses them, and a few bytes of them can stand
// for more than any memory holds.
func yamlToJSON(document []byte) ([]byte, error) {
	marks := 0
	for _, mark := range "\n,[{:-" {
		marks += bytes.Count(document, []byte(string(mark)))
	}
	if marks > maxMarks {
		return nil, fmt.Errorf("%w: a YAML document with more than %d lines and marks; JSON has no such bound", errTooLarge, maxMarks)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(document))
	var root yaml.Node
	if err := decoder.Decode(&root); err != nil {
		return nil, yamlError(err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("is not one YAML document: something follows its end")
	}
	w := &jsonWriter{}
	if err := w.node(&root, 0); err != nil {
		return nil, err
	}
	return w.out.Bytes(), nil
}

// yamlError leaves out what the parser quotes, which is part of the input.
func yamlError(err error) error {
	said, _, _ := strings.Cut(err.Error(), "'")
	said, _, _ = strings.Cut(said, "`")
	return fmt.Errorf("is not readable: %s", strings.TrimSpace(said))
}

type jsonWriter struct {
	out bytes.Buffer
}

func (w *jsonWriter) node(n *yaml.Node, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("line %d: values are nested more than %d deep", n.Line, maxNesting)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return w.node(n.Content[0], depth)
	case yaml.MappingNode:
		return w.mapping(n, depth)
	case yaml.SequenceNode:
		w.out.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				w.out.WriteByte(',')
			}
			if err := w.node(item, depth+1); err != nil {
				return err
			}
		}
		w.out.WriteByte(']')
		return nil
	case yaml.ScalarNode:
		return w.scalar(n)
	}
	return fmt.Errorf("line %d: anchors and aliases are not read", n.Line)
}

func (w *jsonWriter) mapping(n *yaml.Node, depth int) error {
	w.out.WriteByte('{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			return fmt.Errorf("line %d: a key is not a text", key.Line)
		}
		if i > 0 {
			w.out.WriteByte(',')
		}
		if err := w.text(key.Value); err != nil {
			return err
		}
		w.out.WriteByte(':')
		if err := w.node(value, depth+1); err != nil {
			return err
		}
	}
	w.out.WriteByte('}')
	return nil
}

// integer is the one spelling of numbers that every YAML writer means as one.
var integer = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,17})$`)

// scalar keeps every plain text that is not surely null, a truth value or an
// integer as it is written. No stored object has other numbers, while a checksum
// such as 12e4567890123456 is a text to some writers and a number to others.
func (w *jsonWriter) scalar(n *yaml.Node) error {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if n.Style&quoted != 0 || n.Style&yaml.TaggedStyle != 0 && n.Tag == "!!str" {
		return w.text(n.Value)
	}
	switch n.Value {
	case "", "~", "null", "Null", "NULL":
		w.out.WriteString("null")
		return nil
	case "true", "True", "TRUE":
		w.out.WriteString("true")
		return nil
	case "false", "False", "FALSE":
		w.out.WriteString("false")
		return nil
	}
	if integer.MatchString(n.Value) {
		w.out.WriteString(n.Value)
		return nil
	}
	return w.text(n.Value)
}

func (w *jsonWriter) text(text string) error {
	raw, err := json.Marshal(text)
	if err != nil {
		return fmt.Errorf("encoding a text: %w", err)
	}
	w.out.Write(raw)
	return nil
}

package registry

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// chunkBytes is how much of a list is written at once. Every write costs a frame
// and a switch in this process, in the aggregator and in the client, so an item
// at a time would take longer than its encoding.
const chunkBytes = 64 << 10

var chunks = sync.Pool{New: func() any { return &JSON{buffer: make([]byte, 0, chunkBytes+chunkBytes/4)} }}

// JSON appends to a buffer what package json would write, for callers that know
// their types. Commas are its own business.
type JSON struct {
	buffer []byte
}

// Bytes is what was appended so far.
func (j *JSON) Bytes() []byte { return j.buffer }

// Open begins an object or a list: { or [.
func (j *JSON) Open(bracket byte) {
	j.separate()
	j.buffer = append(j.buffer, bracket)
}

// Close ends an object or a list: } or ].
func (j *JSON) Close(bracket byte) { j.buffer = append(j.buffer, bracket) }

// Name appends the name of a member. It must need no escape.
func (j *JSON) Name(name string) {
	j.separate()
	j.buffer = append(j.buffer, '"')
	j.buffer = append(j.buffer, name...)
	j.buffer = append(j.buffer, `":`...)
}

// separate appends a comma where one must stand before the next value or name.
func (j *JSON) separate() {
	if len(j.buffer) == 0 {
		return
	}
	switch j.buffer[len(j.buffer)-1] {
	case '{', '[', ':', ',':
	default:
		j.buffer = append(j.buffer, ',')
	}
}

// String appends a text.
func (j *JSON) String(text string) {
	j.separate()
	for i := range len(text) {
		if !plain[text[i]] {
			// The rules of escaping are left to package json, which cannot fail here.
			encoded, _ := json.Marshal(text)
			j.buffer = append(j.buffer, encoded...)
			return
		}
	}
	j.buffer = append(j.buffer, '"')
	j.buffer = append(j.buffer, text...)
	j.buffer = append(j.buffer, '"')
}

// plain are the bytes that need no escape anywhere.
var plain = func() (table [256]bool) {
	for c := byte(' '); c < 0x7f; c++ {
		table[c] = c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
	}
	return table
}()

// Text appends a member that is left out if empty.
func (j *JSON) Text(name, text string) {
	if text != "" {
		j.Name(name)
		j.String(text)
	}
}

// Number appends a number.
func (j *JSON) Number(n int64) {
	j.separate()
	j.buffer = strconv.AppendInt(j.buffer, n, 10)
}

// True appends the member name: true.
func (j *JSON) True(name string) {
	j.Name(name)
	j.buffer = append(j.buffer, "true"...)
}

// Time appends a time.
func (j *JSON) Time(t metav1.Time) {
	j.separate()
	if t.IsZero() {
		j.buffer = append(j.buffer, "null"...)
		return
	}
	j.buffer = append(j.buffer, '"')
	j.buffer = t.UTC().AppendFormat(j.buffer, time.RFC3339)
	j.buffer = append(j.buffer, '"')
}

// Any appends what package json makes of a value.
func (j *JSON) Any(value any) error {
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding a %T: %w", value, err)
	}
	j.separate()
	j.buffer = append(j.buffer, encoded...)
	return nil
}

// Meta appends object metadata.
func (j *JSON) Meta(m *metav1.ObjectMeta) error {
	if !isShort(m) {
		return j.Any(m)
	}
	j.Open('{')
	j.Text("name", m.Name)
	j.Text("namespace", m.Namespace)
	j.Text("uid", string(m.UID))
	j.Text("resourceVersion", m.ResourceVersion)
	if !m.CreationTimestamp.IsZero() {
		j.Name("creationTimestamp")
		j.Time(m.CreationTimestamp)
	}
	if len(m.Labels) > 0 {
		j.Name("labels")
		if err := j.Any(m.Labels); err != nil {
			return err
		}
	}
	j.Close('}')
	return nil
}

// isShort tells whether metadata has nothing but what views have.
func isShort(m *metav1.ObjectMeta) bool {
	return m.GenerateName == "" && m.SelfLink == "" && m.Generation == 0 && m.DeletionTimestamp == nil &&
		m.DeletionGracePeriodSeconds == nil && len(m.Annotations) == 0 && len(m.OwnerReferences) == 0 &&
		len(m.Finalizers) == 0 && len(m.ManagedFields) == 0
}

// Conditions appends a list of conditions.
func (j *JSON) Conditions(conditions []metav1.Condition) {
	j.Open('[')
	for i := range conditions {
		c := &conditions[i]
		j.Open('{')
		j.Name("type")
		j.String(c.Type)
		j.Name("status")
		j.String(string(c.Status))
		if c.ObservedGeneration != 0 {
			j.Name("observedGeneration")
			j.Number(c.ObservedGeneration)
		}
		j.Name("lastTransitionTime")
		j.Time(c.LastTransitionTime)
		j.Name("reason")
		j.String(c.Reason)
		j.Name("message")
		j.String(c.Message)
		j.Close('}')
	}
	j.Close(']')
}

// EncodedList is a list that knows how to write itself as compact JSON.
type EncodedList struct {
	GVK   schema.GroupVersionKind
	Meta  *metav1.ListMeta
	Count int
	// Item appends one item.
	Item func(j *JSON, i int) error
}

// Write writes the list as the API server's own JSON encoder does.
func (l EncodedList) Write(w io.Writer) error {
	j := chunks.Get().(*JSON)
	defer chunks.Put(j)
	j.buffer = j.buffer[:0]
	j.Open('{')
	j.Text("kind", l.GVK.Kind)
	j.Text("apiVersion", l.GVK.GroupVersion().String())
	j.Name("metadata")
	if err := j.Any(l.Meta); err != nil {
		return err
	}
	j.Name("items")
	j.Open('[')
	for i := range l.Count {
		if len(j.buffer) >= chunkBytes {
			// The last byte stays, to tell whether a comma must follow.
			last := len(j.buffer) - 1
			if _, err := w.Write(j.buffer[:last]); err != nil {
				return err
			}
			j.buffer = append(j.buffer[:0], j.buffer[last])
		}
		if err := l.Item(j, i); err != nil {
			return err
		}
	}
	j.buffer = append(j.buffer, "]}\n"...)
	_, err := w.Write(j.buffer)
	return err
}

// IsPlainJSON tells whether an encoder writes a group version as compact JSON.
// An identifier that does not say so in the known words counts as no.
func IsPlainJSON(id runtime.Identifier, gv schema.GroupVersion) bool {
	var codec struct{ Name, EncodeGV, Encoder string }
	var encoder struct{ Name, Pretty, Yaml string }
	if json.Unmarshal([]byte(id), &codec) != nil || json.Unmarshal([]byte(codec.Encoder), &encoder) != nil {
		return false
	}
	return codec.Name == "versioning" && codec.EncodeGV == gv.String() &&
		encoder.Name == "json" && encoder.Pretty == "false" && encoder.Yaml == "false"
}

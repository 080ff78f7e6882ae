package fencing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// maxIntentBytes bounds the text of an intent. Ours stay under 1 KiB; the API
// server would let 256 KiB of annotations through.
const maxIntentBytes = 64 << 10

// Intent is the record of the output that the fleet was last told to run, and
// of the term that may replace it.
type Intent struct {
	// UID of the template.
	UID string `json:"uid"`
	// Epoch of the term that wrote last.
	Epoch uint64 `json:"epoch"`
	// Claim is the random token of the term that may write. Opaque.
	Claim string `json:"claim"`
	// PlanID and Checksum name the output; both or neither.
	PlanID   string `json:"planID,omitempty"`
	Checksum string `json:"checksum,omitempty"`
	// Holder is the identity of the term's process. Releases 0.5 and 0.6 do not
	// write it, so nothing may require it.
	Holder string `json:"holder,omitempty"`
	// Active is set while recovery from a checkpoint is in force.
	Active *Active `json:"active,omitempty"`
}

// Active says which checkpoint serves while nothing can be rendered.
type Active struct {
	Checksum string    `json:"checksum"`
	Since    time.Time `json:"since"`
}

// HasPlan reports that an output was recorded, not only a claim.
func (i Intent) HasPlan() bool { return i.PlanID != "" && i.Checksum != "" }

// Names reports that the intent is for exactly this output.
func (i Intent) Names(planID, checksum string) bool {
	return i.HasPlan() && i.PlanID == planID && i.Checksum == checksum
}

// Encode is the annotation's text, members in the order other readers know.
func (i Intent) Encode() string {
	raw, err := json.Marshal(i)
	if err != nil {
		// Strings, numbers and a time cannot fail to encode, except a year
		// beyond 9999, which no caller's clock gives.
		panic(fmt.Sprintf("encoding an intent: %v", err))
	}
	return string(raw)
}

// ParseIntent reads an annotation's text. An empty text is no intent. Unknown
// members are ignored, since later releases add some. A record that names half
// an output is refused: nothing could be chosen by it.
func ParseIntent(text string) (intent Intent, present bool, err error) {
	if text == "" {
		return Intent{}, false, nil
	}
	if len(text) > maxIntentBytes {
		return Intent{}, true, fmt.Errorf("%w: intent of %d bytes, at most %d are read", ErrUnreadable, len(text), maxIntentBytes)
	}
	// A bare null decodes without an error and would pass for an empty record.
	if !bytes.HasPrefix(bytes.TrimLeft([]byte(text), " \t\r\n"), []byte("{")) {
		return Intent{}, true, fmt.Errorf("%w: intent is not a JSON object", ErrUnreadable)
	}
	if err := json.Unmarshal([]byte(text), &intent); err != nil {
		return Intent{}, true, fmt.Errorf("%w: intent: %s", ErrUnreadable, describe(err))
	}
	if (intent.PlanID == "") != (intent.Checksum == "") {
		return Intent{}, true, fmt.Errorf("%w: intent names a plan without a checksum or the reverse", ErrUnreadable)
	}
	return intent, true, nil
}

// describe keeps the stored text itself out of the message.
func describe(err error) string {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		return fmt.Sprintf("member %q is a %s", wrongType.Field, wrongType.Value)
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Sprintf("not JSON at byte %d", syntax.Offset)
	}
	return "not decodable"
}

// StoredIntent is what an annotation held: nothing, an intent, or text that
// does not parse.
type StoredIntent struct {
	// Text is the annotation as stored, to tell whether it changed.
	Text    string
	Present bool
	Intent  Intent
	// Err wraps ErrUnreadable.
	Err error
}

// ReadIntent keeps all three outcomes of ParseIntent as one value.
func ReadIntent(text string) StoredIntent {
	intent, present, err := ParseIntent(text)
	return StoredIntent{Text: text, Present: present, Intent: intent, Err: err}
}

// isFor reports that a readable record belongs to the template. A record
// without a UID counts as the template's own, as earlier releases read it.
func (s StoredIntent) isFor(templateUID string) bool {
	return s.Present && s.Err == nil && (s.Intent.UID == "" || s.Intent.UID == templateUID)
}

// isForeign reports that a readable record names another template.
func (s StoredIntent) isForeign(templateUID string) bool {
	return s.Present && s.Err == nil && s.Intent.UID != "" && s.Intent.UID != templateUID
}

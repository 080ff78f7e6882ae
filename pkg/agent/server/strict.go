package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// maxDepth bounds nesting; the manifest needs four levels.
const maxDepth = 16

// decodeStrict refuses whatever two readers could understand in two ways. The
// decoder of the standard library takes the last of two members of one name, and
// takes "MODE" for "mode"; a check of one and an act on the other would differ.
func decodeStrict(raw []byte, into any) error {
	err := checkMembers(json.NewDecoder(bytes.NewReader(raw)), 0)
	if errors.Is(err, io.EOF) {
		return errors.New("the JSON value ends early")
	}
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows the JSON value")
	}
	return nil
}

// checkMembers walks one value.
func checkMembers(decoder *json.Decoder, depth int) error {
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	open, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	if depth == maxDepth {
		return fmt.Errorf("JSON is nested deeper than %d levels", maxDepth)
	}
	seen := make(map[string]bool)
	for decoder.More() {
		if open == '{' {
			if token, err = decoder.Token(); err != nil {
				return err
			}
			name, _ := token.(string)
			switch {
			case strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "":
				return fmt.Errorf("unknown field %q: names are lower-case letters, digits and underscores", name)
			case seen[name]:
				return fmt.Errorf("field %q is given twice", name)
			}
			seen[name] = true
		}
		if err := checkMembers(decoder, depth+1); err != nil {
			return err
		}
	}
	_, err = decoder.Token()
	return err
}

// addressOf reads whom a request is meant for. Two values of one header are
// refused: nobody can tell which of them a proxy in between would have read.
func addressOf(header http.Header) (address, error) {
	var meant address
	for name, into := range map[string]*string{api.HeaderPodUID: &meant.podUID, api.HeaderTemplateUID: &meant.templateUID} {
		values := header.Values(name)
		if len(values) > 1 {
			return address{}, &requestError{stage: api.StageRequest, err: fmt.Errorf("header %s is given %d times", name, len(values))}
		}
		if len(values) == 1 {
			*into = values[0]
		}
	}
	return meant, nil
}

// flagOf reads a query parameter that is 0, 1 or left out.
func flagOf(r *http.Request, name string, otherwise bool) (bool, error) {
	switch values := r.URL.Query()[name]; {
	case len(values) == 0:
		return otherwise, nil
	case len(values) == 1 && values[0] == "1":
		return true, nil
	case len(values) == 1 && values[0] == "0":
		return false, nil
	}
	return false, &requestError{stage: api.StageRequest, err: fmt.Errorf("query parameter %s must be 0 or 1, once", name)}
}

package fakeapi

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/storage"
)

func (s *Server) get(r *request) (answer, error) {
	if r.Namespace == "" {
		return notServed(), nil
	}
	if version := r.query.Get("resourceVersion"); version != "" {
		wanted, err := parseVersion(version)
		if err != nil {
			return answer{}, err
		}
		if wanted > s.version {
			return answer{}, storage.NewTooLargeResourceVersionError(uint64(wanted), uint64(s.version), 1)
		}
	}
	o := s.find(r)
	if o == nil {
		return answer{}, notFound(r)
	}
	return object(http.StatusOK, o), nil
}

func notFound(r *request) error {
	return apierrors.NewNotFound(r.kind.gvr.GroupResource(), r.Name)
}

func object(code int, o *stored) answer {
	return answer{code: code, contentType: jsonType, body: o.encoded}
}

// parseVersion reads a version that a client sends.
func parseVersion(text string) (int64, error) {
	version, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("invalid resourceVersion %q", text))
	}
	return int64(version), nil
}

func (s *Server) list(r *request) (answer, error) {
	match, err := selectionOf(r)
	if err != nil {
		return answer{}, err
	}
	if _, err := listOptions(r); err != nil {
		return answer{}, err
	}
	if err := s.checkListVersion(r); err != nil {
		return answer{}, err
	}
	var body bytes.Buffer
	body.Write(r.kind.listHead)
	body.WriteString(strconv.FormatInt(s.version, 10))
	body.WriteString(`"},"items":[`)
	first := true
	for _, o := range s.tables[r.kind].sorted(r.Namespace) {
		if !match.matches(o) {
			continue
		}
		if !first {
			body.WriteByte(',')
		}
		first = false
		r.kind.writeItem(&body, o.encoded)
	}
	body.WriteString("]}\n")
	return answer{code: http.StatusOK, contentType: jsonType, body: body.Bytes()}, nil
}

// checkListVersion answers for versions that a list of the present cannot
// stand for. The state of the past is not kept.
func (s *Server) checkListVersion(r *request) error {
	text, match := r.query.Get("resourceVersion"), r.query.Get("resourceVersionMatch")
	if text == "" || text == "0" {
		return nil
	}
	wanted, err := parseVersion(text)
	if err != nil {
		return err
	}
	if wanted > s.version {
		return storage.NewTooLargeResourceVersionError(uint64(wanted), uint64(s.version), 1)
	}
	if match == string(metav1.ResourceVersionMatchExact) && s.tables[r.kind].newest.version > wanted {
		return expired(wanted, s.tables[r.kind].oldest.version)
	}
	return nil
}

func expired(wanted, oldest int64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", wanted, oldest))
}

// selection is what a list or a watch asks for.
type selection struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

func selectionOf(r *request) (selection, error) {
	match := selection{namespace: r.Namespace, labels: labels.Everything(), fields: fields.Everything()}
	var err error
	if text := r.query.Get("labelSelector"); text != "" {
		if match.labels, err = labels.Parse(text); err != nil {
			return match, apierrors.NewBadRequest(err.Error())
		}
	}
	if text := r.query.Get("fieldSelector"); text != "" {
		if match.fields, err = fields.ParseSelector(text); err != nil {
			return match, apierrors.NewBadRequest(err.Error())
		}
	}
	for _, requirement := range match.fields.Requirements() {
		if !r.kind.selectable(requirement.Field) {
			return match, apierrors.NewBadRequest(r.kind.unknownField(requirement.Field))
		}
	}
	return match, nil
}

func (m selection) matches(o *stored) bool {
	if o == nil || m.namespace != "" && m.namespace != o.meta.GetNamespace() {
		return false
	}
	if !m.labels.Empty() && !m.labels.Matches(labels.Set(o.meta.GetLabels())) {
		return false
	}
	return m.fields.Empty() || m.fields.Matches(o.kind.fieldsOf(o))
}

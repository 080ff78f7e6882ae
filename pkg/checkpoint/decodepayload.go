package checkpoint

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/holdfast-project/holdfast/pkg/plan"
)

// payload is a decoded spec.retainedPlan.
type payload struct {
	descriptors []Descriptor
	// families are the stored family numbers, which may be none of ours.
	families []int64
	evidence string
	planText string
	decoded  *plan.Decoded
	backends map[string]BackendText

	unknownMembers, nonCanonical []string
}

var (
	outerMembers      = []string{"plan", "artifacts", "evidence"}
	innerMembers      = []string{"plan", "backends"}
	descriptorMembers = []string{"Family", "Name", "Path", "RuntimePath", "ReloadOnChange"}
	backendMembers    = []string{"body", "comments"}
)

// errNoPlan says that a layer of the payload has no plan in it.
var errNoPlan = errors.New("there is no plan in it")

// decodePayload decodes both layers. On error the payload holds what was
// readable: the artifacts of a plan that is not.
func decodePayload(retainedPlan string) (*payload, error) {
	p := &payload{}
	outer, err := unpack(retainedPlan, MaxValue)
	if err != nil {
		return p, fmt.Errorf("outer layer: %w", err)
	}
	inner, err := p.readOuter(viewString(outer))
	if err != nil {
		return p, fmt.Errorf("outer layer: %w", err)
	}
	rawInner, err := unpack(inner, MaxValue)
	if err != nil {
		return p, fmt.Errorf("inner layer: %w", err)
	}
	if err := p.readInner(viewString(rawInner)); err != nil {
		p.decoded = nil
		return p, fmt.Errorf("inner layer: %w", err)
	}
	p.unknownMembers = append(p.unknownMembers, prefixed("plan.", p.decoded.UnknownMembers)...)
	p.nonCanonical = append(p.nonCanonical, prefixed("plan.", p.decoded.NonCanonical)...)
	return p, nil
}

func (p *payload) readOuter(text string) (inner string, err error) {
	s := plan.NewScanner(text)
	s.Record("", outerMembers, func(i int) {
		switch i {
		case 0:
			inner = s.String()
		case 1:
			p.descriptors, p.families = nil, nil
			s.List(func() { p.readDescriptor(s) })
		case 2:
			p.evidence = s.String()
		}
	})
	p.remember(s)
	if err := s.Err(); err != nil {
		p.descriptors, p.families = nil, nil
		return "", err
	}
	if inner == "" {
		return "", errNoPlan
	}
	return inner, nil
}

func (p *payload) readDescriptor(s *plan.Scanner) {
	if len(p.descriptors) >= MaxFiles {
		s.Abort(&plan.BoundError{What: plan.BoundFiles, Limit: MaxFiles})
		return
	}
	var d Descriptor
	var family int64
	s.Record("artifacts.*.", descriptorMembers, func(i int) {
		switch i {
		case 0:
			family = s.Int()
		case 1:
			d.Name = s.String()
		case 2:
			d.Path = s.String()
		case 3:
			d.RuntimePath = s.String()
		case 4:
			d.ReloadOnChange = s.Bool()
		}
	})
	if 0 <= family && family <= 255 {
		d.Family = Family(family)
	}
	if d.RuntimePath == "" {
		d.RuntimePath = d.Path
	}
	p.descriptors = append(p.descriptors, d)
	p.families = append(p.families, family)
}

func (p *payload) readInner(text string) error {
	s := plan.NewScanner(text)
	var planErr error
	s.Record("", innerMembers, func(i int) {
		switch i {
		case 0:
			p.decoded, p.planText, planErr = nil, "", errNoPlan
			if !s.Null() {
				p.decoded, p.planText, planErr = s.Plan()
			}
		case 1:
			p.readBackends(s)
		}
	})
	p.remember(s)
	switch err := s.Err(); {
	case err != nil:
		return err
	case planErr != nil:
		return fmt.Errorf("plan: %w", planErr)
	case p.decoded == nil:
		return errNoPlan
	}
	return nil
}

// backendTextSize is about what one backend costs beside its lines.
const backendTextSize = 96

func (p *payload) readBackends(s *plan.Scanner) {
	p.backends = nil
	s.Object(func(name string) {
		s.Charge(backendTextSize)
		if _, repeated := p.backends[name]; repeated {
			s.Repeated("backends.", name)
		}
		var text BackendText
		s.Record("backends.*.", backendMembers, func(i int) {
			switch i {
			case 0:
				text.Body = s.Strings()
			case 1:
				text.Comments = s.Strings()
			}
		})
		if p.backends == nil {
			p.backends = map[string]BackendText{}
		}
		p.backends[name] = text
	})
}

func (p *payload) remember(s *plan.Scanner) {
	p.unknownMembers = append(p.unknownMembers, s.UnknownMembers()...)
	p.nonCanonical = append(p.nonCanonical, s.NonCanonical()...)
}

func prefixed(prefix string, paths []string) []string {
	named := make([]string, 0, len(paths))
	for _, p := range paths {
		named = append(named, prefix+p)
	}
	return named
}

// EqualPayload tells whether two payloads decode to the same, whatever
// compressor wrote them. A payload that does not decode equals nothing, and one
// with members of a later release only itself.
func EqualPayload(a, b string) (bool, error) {
	if a == b {
		return true, nil
	}
	left, err := decodePayload(a)
	if err != nil {
		return false, fmt.Errorf("decoding the first payload: %w", err)
	}
	right, err := decodePayload(b)
	if err != nil {
		return false, fmt.Errorf("decoding the second payload: %w", err)
	}
	if len(left.unknownMembers)+len(right.unknownMembers) > 0 {
		// What is not understood cannot be compared.
		return false, nil
	}
	return left.planText == right.planText &&
		left.evidence == right.evidence &&
		slices.Equal(left.families, right.families) &&
		slices.Equal(left.descriptors, right.descriptors) &&
		reflect.DeepEqual(left.backends, right.backends), nil
}

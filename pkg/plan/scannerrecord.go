package plan

import (
	"slices"
	"strings"
)

// Record reads an object with known members: read is called with the index of
// each member in names and must read its value. Where is the object's path with
// a dot at the end, for remarks. Unknown members are skipped and remarked upon;
// so are repeated ones, of which the last counts, and members that differ from a
// known one in letter case only, which count as that one. It tells false for null.
func (s *Scanner) Record(where string, names []string, read func(i int)) bool {
	var seen uint64
	next := 0
	return s.object(func() {
		i, name := s.recordMember(where, names, next)
		switch {
		case s.err != nil:
			return
		case i < 0:
			s.remark(&s.unknown, where, name)
			s.Skip()
			return
		case seen&(1<<i) != 0:
			s.remark(&s.nonCanonical, where, names[i])
		}
		seen |= 1 << i
		next = i + 1
		read(i)
	})
}

// recordMember reads a member's name and tells its index. Members come in order
// with some left out, so that the next ones are tried first and as they stand.
func (s *Scanner) recordMember(where string, names []string, next int) (int, string) {
	if s.peek() == '"' {
		for i := next; i < len(names); i++ {
			if s.takeName(names[i]) {
				return i, names[i]
			}
		}
	}
	name := s.memberName()
	if s.err != nil {
		return -1, ""
	}
	return s.indexMember(where, names, name), name
}

func (s *Scanner) indexMember(where string, names []string, name string) int {
	if i := slices.Index(names, name); i >= 0 {
		return i
	}
	i := slices.IndexFunc(names, func(known string) bool { return strings.EqualFold(known, name) })
	if i >= 0 {
		s.remark(&s.nonCanonical, where, name)
	}
	return i
}

// Repeated remarks that a name occurs twice in an object keyed by names.
func (s *Scanner) Repeated(where, name string) {
	s.remark(&s.nonCanonical, where, name)
}

// maxRemark bounds one remark, since names come from the text.
const maxRemark = 64

func (s *Scanner) remark(list *[]string, where, name string) {
	if s.err != nil || len(*list) >= MaxNotes {
		return
	}
	remark := where + name
	if len(name) > maxRemark {
		remark = where + strings.ToValidUTF8(name[:maxRemark], "") + "..."
	}
	if !slices.Contains(*list, remark) {
		*list = append(*list, strings.Clone(remark))
	}
}

// readList reads an array whose elements occupy about size bytes each. Null is
// nil, an empty array is not.
func readList[T any](s *Scanner, size int64, element func(*T)) []T {
	var list []T
	present := s.List(func() {
		if s.Charge(size); s.err != nil {
			return
		}
		// Read in place: a value of its own would be one more allocation each.
		var zero T
		list = append(list, zero)
		element(&list[len(list)-1])
	})
	if present && list == nil {
		list = []T{}
	}
	return list
}

// Strings reads an array of strings. Null is nil, an empty array is not.
func (s *Scanner) Strings() []string {
	var list []string
	present := s.List(func() {
		if s.Charge(stringSize); s.err != nil {
			return
		}
		list = append(list, s.String())
	})
	if present && list == nil {
		list = []string{}
	}
	return list
}

// readMap reads an object keyed by names. Null is nil, an empty object is not.
func readMap[T any](s *Scanner, where string, size int64, element func(*T)) map[string]T {
	var values map[string]T
	var value T
	present := s.Object(func(name string) {
		if s.Charge(size); s.err != nil {
			return
		}
		if values == nil {
			values = make(map[string]T)
		}
		if _, repeated := values[name]; repeated {
			s.Repeated(where, name)
		}
		var zero T
		value = zero
		element(&value)
		values[name] = value
	})
	if present && values == nil {
		values = map[string]T{}
	}
	return values
}

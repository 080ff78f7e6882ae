package render

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

// emitted is one backend section: its text, its record, and the lines that the
// record leaves out.
type emitted struct {
	record plan.Backend
	lines  checkpoint.BackendText
	text   string
}

// What a template may say about a backend and its servers. Anything else is
// refused, because a misspelt key would silently serve something else.
var (
	backendKeys = []string{"name", "mode", "balance", "hashType", "defaultServer", "options", "comments", "servers"}
	serverKeys  = []string{"name", "address", "port", "weight", "disabled", "extra"}
)

var (
	properName = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)
	hostName   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,252})$`)
)

// maxWeight is HAProxy's own limit.
const maxWeight = 256

// newBackend turns data into a section. The text is made here and nowhere else,
// so that the record in the plan and the configuration cannot disagree.
func newBackend(data map[string]any) (*emitted, error) {
	if err := onlyKeys(data, backendKeys); err != nil {
		return nil, err
	}
	f := fields{data: data}
	e := &emitted{record: plan.Backend{
		Name:     f.name("name"),
		Mode:     f.text("mode"),
		Balance:  f.text("balance"),
		HashType: f.text("hashType"),
	}}
	e.lines.Body = f.lines("options")
	e.lines.Comments = f.lines("comments")
	defaults := f.lines("defaultServer")
	servers := f.list("servers")
	if f.err != nil {
		return nil, f.err
	}
	if mode := e.record.Mode; !slices.Contains([]string{"", "http", "tcp"}, mode) {
		return nil, fmt.Errorf("backend %q: mode must be http or tcp, not %q", e.record.Name, mode)
	}
	for _, line := range defaults {
		e.record.DefaultServer = append(e.record.DefaultServer, keyword(line))
	}
	for i, data := range servers {
		server, err := newServer(data)
		if err != nil {
			return nil, fmt.Errorf("backend %q: servers[%d]: %w", e.record.Name, i, err)
		}
		if slices.ContainsFunc(e.record.Servers, func(s plan.Server) bool { return s.Name == server.Name }) {
			return nil, fmt.Errorf("backend %q: server name %q is used twice", e.record.Name, server.Name)
		}
		e.record.Servers = append(e.record.Servers, server)
	}
	if err := checkLines(e.lines); err != nil {
		return nil, fmt.Errorf("backend %q: %w", e.record.Name, err)
	}
	return e, e.seal(defaults)
}

// seal writes the text and the digests.
func (e *emitted) seal(defaults []string) error {
	r := &e.record
	r.Shape, r.ShapeReason = shape(r)
	e.text = sectionText(r, e.lines, defaults)
	r.BodyDigest = plan.LinesDigest(e.lines.Body)
	r.CommentsDigest = plan.LinesDigest(e.lines.Comments)
	r.TextDigest = plan.DigestString(e.text)
	// The record's digest covers all of the record but itself.
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("backend %q: %w", r.Name, err)
	}
	r.RecordDigest = plan.Digest(raw)
	return nil
}

func sectionText(r *plan.Backend, lines checkpoint.BackendText, defaults []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "backend %s\n", r.Name)
	for _, line := range lines.Comments {
		fmt.Fprintf(&b, "    # %s\n", line)
	}
	for _, setting := range [][2]string{{"mode", r.Mode}, {"balance", r.Balance}, {"hash-type", r.HashType}} {
		if setting[1] != "" {
			fmt.Fprintf(&b, "    %s %s\n", setting[0], setting[1])
		}
	}
	for _, line := range lines.Body {
		fmt.Fprintf(&b, "    %s\n", line)
	}
	if len(defaults) > 0 {
		fmt.Fprintf(&b, "    default-server %s\n", strings.Join(defaults, " "))
	}
	for _, s := range r.Servers {
		b.WriteString(serverLine(s))
	}
	return b.String()
}

func serverLine(s plan.Server) string {
	address := s.Address
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
		address = "[" + address + "]"
	}
	line := fmt.Sprintf("    server %s %s:%d", s.Name, address, s.Port)
	if s.Weight != nil {
		line += " weight " + strconv.FormatInt(*s.Weight, 10)
	}
	for _, k := range s.Extra {
		line += " " + strings.Join(append([]string{k.Name}, k.Args...), " ")
	}
	if s.Disabled {
		line += " disabled"
	}
	return line + "\n"
}

func newServer(data any) (plan.Server, error) {
	dict, ok := data.(map[string]any)
	if !ok {
		return plan.Server{}, fmt.Errorf("must be a dict, is %T", data)
	}
	if err := onlyKeys(dict, serverKeys); err != nil {
		return plan.Server{}, err
	}
	f := fields{data: dict}
	s := plan.Server{Name: f.name("name"), Address: f.text("address"), Disabled: f.flag("disabled")}
	s.Port = f.number("port", 1, 65535)
	if _, ok := dict["weight"]; ok {
		weight := f.number("weight", 0, maxWeight)
		s.Weight = &weight
	}
	for _, line := range f.lines("extra") {
		s.Extra = append(s.Extra, keyword(line))
	}
	if f.err == nil {
		if _, err := netip.ParseAddr(s.Address); err != nil && !hostName.MatchString(s.Address) {
			f.err = fmt.Errorf("address %q is neither an IP address nor a host name", s.Address)
		}
	}
	return s, f.err
}

// shape says whether the runtime API could create and fill the backend. Dynamic
// servers need a dynamic balance algorithm and known addresses, and take only
// some keywords.
func shape(r *plan.Backend) (shape, reason string) {
	algorithm, _, _ := strings.Cut(r.Balance, " ")
	switch {
	case len(r.DefaultServer) > 0:
		return plan.ShapeStructural, "default-server is set"
	case !slices.Contains([]string{"", "roundrobin", "leastconn", "random"}, algorithm) && !strings.HasPrefix(algorithm, "random("):
		return plan.ShapeStructural, "balance " + algorithm + " is not dynamic"
	}
	for _, s := range r.Servers {
		if len(s.Extra) > 0 {
			return plan.ShapeStructural, "server " + s.Name + " has extra keywords"
		}
		if _, err := netip.ParseAddr(s.Address); err != nil {
			return plan.ShapeStructural, "server " + s.Name + " has a host name"
		}
	}
	return plan.ShapeDynamic, ""
}

func keyword(line string) plan.Keyword {
	words := strings.Fields(line)
	return plan.Keyword{Name: words[0], Args: words[1:]}
}

// checkLines keeps a body from ending its own section or smuggling in servers
// that the record would not know.
func checkLines(lines checkpoint.BackendText) error {
	for _, line := range lines.Body {
		switch word := strings.Fields(line)[0]; {
		case slices.Contains(sectionKeywords, word):
			return fmt.Errorf("option %q would start another section", line)
		case slices.Contains([]string{"server", "server-template", "default-server", "mode", "balance", "hash-type"}, word):
			return fmt.Errorf("option %q has a key of its own", line)
		}
	}
	return nil
}

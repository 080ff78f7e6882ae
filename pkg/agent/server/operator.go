package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

const (
	// deleteAttempts and deletePause bound the wait for a server's last
	// connection. Old connections may last for hours; a reload leaves them to
	// the worker before.
	deleteAttempts = 5
	deletePause    = 40 * time.Millisecond
)

// since is the first version that has a kind, as major and minor. Servers were
// experimental before theirs.
var since = map[plan.OperationKind][2]int{
	plan.OpServerAddress: {1, 8}, plan.OpServerWeight: {1, 8}, plan.OpServerState: {1, 8},
	plan.OpServerAdd: {2, 6}, plan.OpServerDelete: {2, 6},
	plan.OpMapSet: {2, 0}, plan.OpMapAdd: {2, 0}, plan.OpMapDelete: {2, 0}, plan.OpMapReplace: {2, 4},
	plan.OpCertReplace: {2, 2}, plan.OpCertAdd: {2, 2}, plan.OpCertDelete: {2, 2},
	plan.OpCRTListAdd: {2, 2}, plan.OpCRTListDelete: {2, 2},
	// It came with 2.5, with a fault that was mended in later releases of 3.2: the
	// worker no longer serves what its certificates are replaced by, and a second
	// replacement ends it.
	plan.OpCAReplace: {3, 2},
}

// kindsOf are the kinds that a version of HAProxy has; an unknown one has none.
func kindsOf(version string) map[plan.OperationKind]bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, errX := strconv.Atoi(major)
	y, errY := strconv.Atoi(minor)
	kinds := make(map[plan.OperationKind]bool)
	if errX != nil || errY != nil {
		return kinds
	}
	for kind, first := range since {
		if slices.Compare([]int{x, y}, first[:]) >= 0 {
			kinds[kind] = true
		}
	}
	return kinds
}

// agentOps are the kinds that the running HAProxy has, as a state lists them.
func (a *agent) agentOps() []string {
	kinds, ops := a.kinds(), []string{}
	for _, kind := range plan.OperationKinds() {
		if kinds[kind] {
			ops = append(ops, string(kind))
		}
	}
	return ops
}

func (a *agent) kinds() map[plan.OperationKind]bool { return kindsOf(a.identity().Version) }

// operator gives one worker the operations that lead to one set.
type operator struct {
	socket  string
	root    *os.Root // the set's files
	files   map[string]api.File
	config  string
	servers *backends         // nil: conditions decide, so they cannot be compared afterwards
	maps    map[string]string // numbers by path, once asked for
}

// newOperator takes the servers from known, if somebody has read them already.
func newOperator(socket string, l layout, s *set, known serverReader) (*operator, error) {
	root, err := os.OpenRoot(filepath.Join(l.set(s.ID), setFiles))
	if err != nil {
		return nil, err
	}
	config, err := root.ReadFile(api.ConfigPath)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	o := &operator{socket: socket, root: root, files: s.byPath(), config: string(config)}
	if known != nil {
		if o.servers, err = known(); err != nil {
			return nil, errors.Join(err, root.Close())
		}
	} else if servers, ok := configuredServers(o.config); ok {
		o.servers = servers
	}
	return o, nil
}

func (o *operator) close() { _ = o.root.Close() } // only read from

// refusal says why an operation did not happen. It quotes neither a command nor
// an answer: either may hold what is nobody's business.
type refusal string

func (r refusal) Error() string { return string(r) }

const (
	refusedByWorker = refusal("the worker refused it")
	refusedBySize   = refusal("it exceeds what HAProxy takes at once")
	errNotLoaded    = refusal("the worker has no such file")
)

// run carries out operations until one fails.
func (o *operator) run(ctx context.Context, ops []plan.Operation) ([]api.OpResult, error) {
	var results []api.OpResult
	for i, op := range ops {
		if err := o.do(ctx, op); err != nil {
			results = append(results, api.OpResult{Kind: op.Kind, Message: err.Error()})
			return results, fmt.Errorf("operation %d, %s: %w", i, op.Kind, err)
		}
		results = append(results, api.OpResult{Kind: op.Kind, OK: true})
	}
	return results, nil
}

func (o *operator) do(ctx context.Context, op plan.Operation) error {
	server := op.Backend + "/" + op.Server
	if op.Backend != "" && o.servers == nil {
		return refusal("the configuration has conditions, so the servers could not be compared")
	}
	switch op.Kind {
	case plan.OpServerAddress:
		answer, err := o.ask(ctx, fmt.Sprintf("set server %s addr %s port %d", server, op.Address, op.Port))
		return expect(answer, err, "IP changed from", "port changed from", "no need to change", "nothing changed")
	case plan.OpServerWeight:
		return o.quiet(ctx, fmt.Sprintf("set server %s weight %d", server, *op.Weight))
	case plan.OpServerState:
		return o.setState(ctx, server, op.Disabled)
	case plan.OpServerAdd:
		return o.addServer(ctx, server, op)
	case plan.OpServerDelete:
		return o.deleteServer(ctx, server)
	case plan.OpMapSet, plan.OpMapAdd, plan.OpMapDelete:
		return o.changeRow(ctx, op)
	case plan.OpMapReplace:
		return o.replaceMap(ctx, op.Path)
	case plan.OpCertReplace:
		return o.replaceCertificate(ctx, op.Path)
	case plan.OpCertAdd:
		return o.addCertificate(ctx, op.Path)
	case plan.OpCertDelete:
		return o.deleteCertificate(ctx, op.Path)
	case plan.OpCRTListAdd, plan.OpCRTListDelete:
		return o.changeEntry(ctx, op)
	case plan.OpCAReplace:
		return o.replaceAuthorities(ctx, op.Path)
	}
	return refusal("not a kind that is known here")
}

// ask gives the worker one command. What goes wrong is not quoted: the error of
// a broken connection would name the command.
func (o *operator) ask(ctx context.Context, command string) (string, error) {
	line, payload, _ := strings.Cut(command, "\n")
	if len(line) > api.MaxLineBytes || len(payload) > api.MaxLineBytes {
		return "", refusedBySize
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := askUnlocked(ctx, o.socket, command)
	if err != nil {
		return "", refusal("the worker gave no whole answer")
	}
	return answer, nil
}

// quiet gives a command that is answered with nothing when it worked.
func (o *operator) quiet(ctx context.Context, command string) error {
	answer, err := o.ask(ctx, command)
	if err != nil {
		return err
	}
	if strings.TrimSpace(answer) != "" {
		return refusedByWorker
	}
	return nil
}

// expect requires an answer that starts with one of the sentences.
func expect(answer string, err error, sentences ...string) error {
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(sentences, func(s string) bool { return strings.HasPrefix(answer, s) }) {
		return refusedByWorker
	}
	return nil
}

func (o *operator) setState(ctx context.Context, server string, disabled bool) error {
	state := "ready"
	if disabled {
		state = "maint"
	}
	return o.quiet(ctx, "set server "+server+" state "+state)
}

// addServer adds a server and takes it out of the maintenance that it starts in.
func (o *operator) addServer(ctx context.Context, server string, op plan.Operation) error {
	if hasDefaults(o.config, op.Backend) {
		return refusal("the configuration has defaults for its servers")
	}
	address := op.Address
	if strings.Contains(address, ":") {
		address = "[" + address + "]"
	}
	command := fmt.Sprintf("add server %s %s:%d", server, address, op.Port)
	if op.Weight != nil {
		command += fmt.Sprintf(" weight %d", *op.Weight)
	}
	if op.Disabled {
		command += " disabled"
	}
	answer, err := o.ask(ctx, command)
	if err := expect(answer, err, "New server registered."); err != nil || op.Disabled {
		return err
	}
	return o.setState(ctx, server, false)
}

// deleteServer removes a server once nothing is connected to it any more.
func (o *operator) deleteServer(ctx context.Context, server string) error {
	if err := o.setState(ctx, server, true); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		answer, err := o.ask(ctx, "del server "+server)
		err = expect(answer, err, "Server deleted.")
		if err == nil || !errors.Is(err, refusedByWorker) || attempt == deleteAttempts {
			return err
		}
		if err := pause(ctx, deletePause); err != nil {
			return err
		}
	}
}

// known is the one name under which the worker has loaded a file, for as long as
// there is no other: a file that is also loaded under a second spelling would be
// changed by half.
func known(loaded []string, file string) error {
	found := false
	for _, name := range loaded {
		switch {
		case name == file:
			found = true
		case path.Clean(name) == file || strings.HasSuffix(name, "/"+file):
			return refusal("the worker has the file under another name")
		}
	}
	if !found {
		return errNotLoaded
	}
	return nil
}

package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
)

// Fates of an item that waits on the network.
const (
	fateDeliver = "deliver"
	// fateDrop loses a request before it has any effect, a reply after it had,
	// and breaks a watch off.
	fateDrop = "drop"
	// fateCut loses the reply of a request that took effect.
	fateCut = "cut"
	// fateHoldReply lets a request take effect; its reply waits on its own.
	fateHoldReply = "hold reply"
	// fateExpired shows a read of the leader-election Lease as one that ran out,
	// as a process sees it whose clock jumped ahead.
	fateExpired = "expired"
	// fateSkip ends what waits when a schedule is over.
	fateSkip = "skip"
)

// readElection is the target of a look at the leader-election Lease.
const readElection = "get leases " + electionName

var errNetwork = errors.New("simulated network: connection lost")

// item is something that waits on the network until the schedule releases it.
type item struct {
	// key names it the same in every run of a schedule.
	key string
	// process is who sent it or whom it is for.
	process string
	// class tells what fates it may have.
	class itemClass
	// target is "verb resource name" of a request.
	target string
	// body is what a write carries.
	body []byte
	// since is the step in which it began to wait.
	since   int
	release chan string
}

// isRecovery reports an apply that recovery sent: token 0 of a term is its own.
func (i *item) isRecovery() bool {
	token, _, _ := strings.Cut(strings.TrimPrefix(i.target, "apply "), " ")
	return strings.HasPrefix(i.target, "apply ") && strings.HasSuffix(token, "/0")
}

// isInformers reports traffic that only feeds a process's caches.
func (i *item) isInformers() bool {
	return i.class == classEvent || strings.HasPrefix(i.target, "watch ") ||
		i.target == "list pods " || i.target == "list haproxytemplateconfigs "
}

type itemClass int

const (
	classRead itemClass = iota
	classWrite
	classReply
	classEvent
	classAgent
	classAgentReply
)

// network holds what waits. Everything on it belongs to a process by name.
type network struct {
	mu      sync.Mutex
	waiting map[string]*item
	counts  map[string]int
	events  int
	over    bool
	dead    map[string]bool
	// news is raised when something new waits.
	news chan struct{}
	step int
	// sent and replied watch requests of processes, for checkers.
	sent    func(i *item)
	replied func(process, target string, body []byte)
	flights sync.WaitGroup
}

func newNetwork() *network {
	return &network{
		waiting: map[string]*item{}, counts: map[string]int{}, dead: map[string]bool{}, news: make(chan struct{}, 1),
	}
}

// park waits until the schedule releases the item. When ctx ends first, the
// item is gone as if it had been dropped.
func (n *network) park(ctx context.Context, i *item) string {
	i.release = make(chan string, 1)
	n.mu.Lock()
	if n.over || n.dead[i.process] || ctx.Err() != nil {
		n.mu.Unlock()
		return fateDrop
	}
	n.counts[i.key]++
	i.key = fmt.Sprintf("%s #%d", i.key, n.counts[i.key])
	i.since = n.step
	n.waiting[i.key] = i
	n.mu.Unlock()
	if n.sent != nil && i.class != classReply && i.class != classEvent && i.class != classAgentReply {
		n.sent(i)
	}
	select {
	case n.news <- struct{}{}:
	default:
	}
	select {
	case fate := <-i.release:
		return fate
	case <-ctx.Done():
		n.mu.Lock()
		delete(n.waiting, i.key)
		n.mu.Unlock()
		select {
		case fate := <-i.release: // released in the same moment
			return fate
		default:
			return fateDrop
		}
	}
}

// let releases a waiting item with a fate. It reports whether it was there.
func (n *network) let(key, fate string) (*item, bool) {
	n.mu.Lock()
	i, ok := n.waiting[key]
	delete(n.waiting, key)
	n.mu.Unlock()
	if ok {
		i.release <- fate
	}
	return i, ok
}

// at tells which decision is made now.
func (n *network) at(step int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.step = step
}

// snapshot lists what waits.
func (n *network) snapshot() []*item {
	n.mu.Lock()
	defer n.mu.Unlock()
	items := make([]*item, 0, len(n.waiting))
	for _, i := range n.waiting {
		items = append(items, i)
	}
	return items
}

// kill takes a process off the network. Writes that it sent may still arrive.
func (n *network) kill(process string) {
	n.mu.Lock()
	n.dead[process] = true
	var gone []*item
	for key, i := range n.waiting {
		if i.process == process && i.class != classWrite && i.class != classAgent {
			gone = append(gone, i)
			delete(n.waiting, key)
		}
	}
	n.mu.Unlock()
	for _, i := range gone {
		i.release <- fateDrop
	}
}

// close ends everything that waits, and waits until it has ended.
func (n *network) close() {
	n.mu.Lock()
	n.over = true
	waiting := n.waiting
	n.waiting = map[string]*item{}
	n.mu.Unlock()
	for _, i := range waiting {
		i.release <- fateSkip
	}
	n.flights.Wait()
}

func (n *network) isDead(process string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dead[process] || n.over
}

// wire is one process's connection to the API server.
type wire struct {
	*network
	process string
	server  http.RoundTripper
}

type answer struct {
	response *http.Response
	err      error
}

// RoundTrip sends a request over the network. A write that was sent takes
// effect or not whether its sender still waits for it or not.
func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	var body []byte
	if request.Body != nil {
		var err error
		body, err = io.ReadAll(request.Body)
		if closeErr := request.Body.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return nil, err
		}
	}
	if w.isDead(w.process) {
		return nil, errNetwork
	}
	if err := request.Context().Err(); err != nil {
		return nil, err // it never leaves
	}
	i := &item{process: w.process, class: classRead, target: targetOf(request), body: body}
	i.key = w.process + " " + flow() + " " + i.target
	if request.Method == http.MethodGet {
		return w.carry(request.Context(), request, i)
	}
	i.class = classWrite
	sender := request.Context()
	done := make(chan answer, 1)
	w.flights.Go(func() {
		response, err := w.carry(context.WithoutCancel(sender), request, i)
		done <- answer{response, err}
	})
	select {
	case a := <-done:
		return a.response, a.err
	case <-sender.Done():
		return nil, sender.Err()
	}
}

// named gives an event of its own name. Their names are made of the time, which
// does not pass here between two of them.
func (w *wire) named(body []byte) []byte {
	var event map[string]any
	if err := json.Unmarshal(body, &event); err != nil {
		return body
	}
	if meta, ok := event["metadata"].(map[string]any); ok {
		w.mu.Lock()
		w.events++
		meta["name"] = fmt.Sprintf("%v.%d", meta["name"], w.events)
		w.mu.Unlock()
	}
	raw, err := json.Marshal(event)
	if err != nil {
		return body
	}
	return raw
}

// carry takes a request to the server and its reply back.
func (w *wire) carry(ctx context.Context, request *http.Request, i *item) (*http.Response, error) {
	target, body, reply := i.target, i.body, i.key+" reply"
	fate := fateDeliver
	if !unparked(target) {
		fate = w.park(ctx, i)
	}
	if fate == fateDrop || fate == fateSkip {
		return nil, errNetwork
	}
	if strings.HasPrefix(target, "create events ") {
		body = w.named(body)
	}
	forward := request.Clone(ctx)
	if body != nil {
		forward.Body, forward.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	response, err := w.server.RoundTrip(forward)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(target, "watch ") {
		return response, nil
	}
	raw, err := io.ReadAll(response.Body)
	if closeErr := response.Body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	if fate == fateHoldReply {
		if w.park(ctx, &item{key: reply, process: w.process, class: classReply, target: target}) != fateDeliver {
			return nil, errNetwork
		}
	}
	if fate == fateCut || w.isDead(w.process) {
		return nil, errNetwork
	}
	if fate == fateExpired {
		raw = expiredLease(raw)
	}
	if w.replied != nil {
		w.replied(w.process, target, raw)
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	return response, nil
}

// flow names the part of a controller that sends a request. Two parts may ask for
// the same, and their keys must not depend on which came first.
func flow() string {
	var counters [48]uintptr
	frames := runtime.CallersFrames(counters[:runtime.Callers(4, counters[:])])
	for {
		frame, more := frames.Next()
		if _, rest, ours := strings.Cut(frame.Function, "/pkg/controller/"); ours && !strings.HasPrefix(rest, "election.(*") {
			part, _, _ := strings.Cut(rest, ".")
			return part
		}
		if strings.Contains(frame.Function, "(*reporter)") {
			return "status"
		}
		if !more {
			return "election"
		}
	}
}

// unparked requests do not matter to what is simulated.
func unparked(target string) bool {
	return strings.Contains(target, " events ") || strings.HasPrefix(target, "discover ")
}

// targetOf is "verb resource[/subresource] name".
func targetOf(request *http.Request) string {
	verb := map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[request.Method]
	path := request.URL.Path
	_, rest, ok := strings.Cut(path, "/namespaces/")
	if !ok {
		return "discover " + path + " "
	}
	parts := strings.Split(rest, "/")[1:] // without the namespace
	resource, name := parts[0], ""
	if len(parts) > 1 {
		name = parts[1]
	}
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	if verb == "get" && name == "" {
		verb = "list"
		if query := request.URL.Query(); query.Get("watch") == "true" || query.Get("watch") == "1" {
			verb = "watch"
		}
	}
	return verb + " " + resource + " " + name
}

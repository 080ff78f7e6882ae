package election

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

var leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// call is one request that reached the store, with its outcome.
type call struct {
	Process, Verb, Name string
	Failed              bool
}

// leaseStore checks what the API server checks: resourceVersion on updates,
// both preconditions on deletion, names on creation.
type leaseStore struct {
	mu      sync.Mutex
	leases  map[string]*coordinationv1.Lease
	version int
	uids    int
	calls   []call
	// before, if set, runs ahead of each request and may refuse it. after runs
	// behind it and may turn its answer into an error: a lost reply.
	before func(call) error
	after  func(call) error
}

func newLeaseStore(leases ...*coordinationv1.Lease) *leaseStore {
	s := &leaseStore{leases: map[string]*coordinationv1.Lease{}}
	for _, lease := range leases {
		s.put(lease)
	}
	return s
}

func (s *leaseStore) put(lease *coordinationv1.Lease) *coordinationv1.Lease {
	stored := lease.DeepCopy()
	if stored.UID == "" {
		s.uids++
		stored.UID = types.UID("lease-" + strconv.Itoa(s.uids))
	}
	s.version++
	stored.ResourceVersion = strconv.Itoa(s.version)
	s.leases[stored.Name] = stored
	return stored.DeepCopy()
}

// edit is a foreign writer's change.
func (s *leaseStore) edit(name string, change func(*coordinationv1.Lease)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.leases[name].DeepCopy()
	change(changed)
	s.put(changed)
}

func (s *leaseStore) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, name)
}

func (s *leaseStore) read(name string) *coordinationv1.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases[name].DeepCopy()
}

func (s *leaseStore) hooks(before, after func(call) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

// took gives the calls since the last take.
func (s *leaseStore) took() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

func count(calls []call, match call) int {
	n := 0
	for _, c := range calls {
		if c == match {
			n++
		}
	}
	return n
}

// clientOf gives one process's view of the store.
func (s *leaseStore) clientOf(process string) leaseClient {
	return leaseClient{store: s, process: process}
}

type leaseClient struct {
	store   *leaseStore
	process string
}

func (c leaseClient) do(ctx context.Context, verb, name string, act func(s *leaseStore) (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	s, this := c.store, call{Process: c.process, Verb: verb, Name: name}
	s.mu.Lock()
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil {
		if err := before(this); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	lease, err := act(s)
	this.Failed = err != nil
	s.calls = append(s.calls, this)
	s.mu.Unlock()
	if err == nil && after != nil {
		if err := after(this); err != nil {
			return nil, err
		}
	}
	return lease, err
}

func (c leaseClient) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return c.do(ctx, "get", name, func(s *leaseStore) (*coordinationv1.Lease, error) {
		if s.leases[name] == nil {
			return nil, apierrors.NewNotFound(leaseResource, name)
		}
		return s.leases[name].DeepCopy(), nil
	})
}

func (c leaseClient) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return c.do(ctx, "create", lease.Name, func(s *leaseStore) (*coordinationv1.Lease, error) {
		if s.leases[lease.Name] != nil {
			return nil, apierrors.NewAlreadyExists(leaseResource, lease.Name)
		}
		return s.put(lease), nil
	})
}

func (c leaseClient) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return c.do(ctx, "update", lease.Name, func(s *leaseStore) (*coordinationv1.Lease, error) {
		old := s.leases[lease.Name]
		if old == nil {
			return nil, apierrors.NewNotFound(leaseResource, lease.Name)
		}
		if lease.ResourceVersion != old.ResourceVersion || lease.UID != old.UID {
			return nil, apierrors.NewConflict(leaseResource, lease.Name, fmt.Errorf("version %s, not %s", old.ResourceVersion, lease.ResourceVersion))
		}
		return s.put(lease), nil
	})
}

func (c leaseClient) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	_, err := c.do(ctx, "delete", name, func(s *leaseStore) (*coordinationv1.Lease, error) {
		old := s.leases[name]
		if old == nil {
			return nil, apierrors.NewNotFound(leaseResource, name)
		}
		p := opts.Preconditions
		if p == nil || p.UID == nil || p.ResourceVersion == nil {
			return nil, apierrors.NewBadRequest("deletion without both preconditions")
		}
		if *p.UID != old.UID || *p.ResourceVersion != old.ResourceVersion {
			return nil, apierrors.NewConflict(leaseResource, name, fmt.Errorf("precondition"))
		}
		delete(s.leases, name)
		return old, nil
	})
	return err
}

// templates lists living templates by UID and name.
type templates map[string]string

func (t templates) List(context.Context, metav1.ListOptions) (*v1alpha1.HAProxyTemplateConfigList, error) {
	list := &v1alpha1.HAProxyTemplateConfigList{}
	for _, uid := range slices.Sorted(maps.Keys(t)) {
		item := v1alpha1.HAProxyTemplateConfig{}
		item.UID, item.Name = types.UID(uid), t[uid]
		list.Items = append(list.Items, item)
	}
	return list, nil
}

// leader is a Leader whose work is given by functions. Each call is noted.
type leader struct {
	announce func(ctx context.Context, epoch uint64) []uint64
	lead     func(ctx context.Context, term *Term)
	drain    func(ctx context.Context, term *Term)

	mu    sync.Mutex
	terms []*Term
	notes []string
}

func (l *leader) note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notes = append(l.notes, text)
}

func (l *leader) noted() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.notes)
}

// current is the newest term, nil before the first.
func (l *leader) current() *Term {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.terms) == 0 {
		return nil
	}
	return l.terms[len(l.terms)-1]
}

func (l *leader) led() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.terms)
}

func (l *leader) Announce(ctx context.Context, epoch uint64) []uint64 {
	if l.announce == nil {
		return nil
	}
	return l.announce(ctx, epoch)
}

func (l *leader) Lead(ctx context.Context, term *Term) {
	l.mu.Lock()
	l.terms = append(l.terms, term)
	l.mu.Unlock()
	if l.lead != nil {
		l.lead(ctx, term)
		return
	}
	<-ctx.Done()
}

func (l *leader) Drain(ctx context.Context, term *Term) {
	if l.drain != nil {
		l.drain(ctx, term)
	}
}

func mustNew(t *testing.T, s Settings, store *leaseStore, living templates, l *leader) *Election {
	t.Helper()
	e, err := New(s, store.clientOf(s.Identity), living, l, NewMetrics(noRegistry{}))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

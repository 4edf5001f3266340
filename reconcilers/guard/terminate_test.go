// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/guard"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
)

const foreign = "example.com/foreign" // a finalizer

// shop is an external system without idempotency keys: it charges and refunds on every request.
type shop struct {
	servertest.Journal

	mu       sync.Mutex
	finished map[string]bool
}

// sells returns the factory of a provider that charges for a Tunnel once, and refunds it once.
func (s *shop) sells() factory {
	task := func(c *controller, what, reason string) guard.Task {
		return func(context.Context, guard.Attempt) (guard.Outcome, error) {
			s.Note("%s %s", what, c.Object().Name)
			return guard.Outcome{Status: metav1.ConditionTrue, Reason: reason}, nil
		}
	}
	return scripted{
		journal: &servertest.Journal{},
		reconcile: func(ctx context.Context, c *controller) (*reconcile.Result, error) {
			if c.Settled() == "" {
				return &reconcile.Result{}, c.Guard(ctx, "charge", task(c, "charge", "Charged"))
			}
			return nil, nil
		},
		terminate: func(ctx context.Context, c *controller) (*reconcile.Result, error) {
			s.terminates(c.Object().Name)
			if c.Settled() != "Refunded" {
				if err := c.Guard(ctx, "refund", task(c, "refund", "Refunded")); err != nil {
					return nil, err
				}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.finished[c.Object().Name] = true
			return nil, nil
		},
	}.factory(kind)
}

func (s *shop) terminates(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished == nil {
		s.finished = map[string]bool{}
	}
	if s.finished[name] {
		s.Note("terminate again %s", name)
	}
}

// expectOnce checks that a Tunnel was charged for and refunded once. Every call counts.
func (s *shop) expectOnce(t testing.TB, name string) {
	t.Helper()
	for _, what := range []string{"charge", "refund"} {
		testkit.Equal(t, s.Count(what+" "+name), 1, what, name, "calls")
	}
}

// view is a client that may show an old version of a Tunnel, and may refuse to remove finalizers.
type view struct {
	old     *Tunnel
	blind   bool   // does not have Tunnels yet
	refused int    // number of finalizer patches that will be refused
	patched func() // called after a patch of finalizers
}

func (v *view) client(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			shown, ok := obj.(*Tunnel)
			switch {
			case ok && v.blind:
				return apierrors.NewNotFound(schema.GroupResource{Resource: "tunnels"}, key.Name)
			case ok && v.old != nil:
				*shown = *v.old.DeepCopyObject().(*Tunnel)
				return nil
			}
			return c.Get(ctx, key, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if v.refused > 0 {
				v.refused--
				return apierrors.NewForbidden(schema.GroupResource{Resource: "tunnels"}, obj.GetName(), errBroken)
			}
			err := c.Patch(ctx, obj, patch, opts...)
			if v.patched != nil {
				v.patched()
			}
			return err
		},
	})
}

// replica returns a reconciler with this view, like a reconciler of another process.
func (s *server) replica(o options, c client.Client, f factory) *hand {
	s.T.Helper()
	h, err := guard.NewHost(c, s, o)
	must(s.T, err)
	r, err := guard.NewReconciler(h, f)
	must(s.T, err)
	return &hand{s, &process{}, h.SetClock(s.T.Context()), r}
}

// deleted returns a Tunnel that was charged for and is being deleted, in its state at that time.
func (s *server) deleted(h *hand, name string, change ...func(*Tunnel)) *Tunnel {
	s.T.Helper()
	s.Make(name, change...)
	must(s.T, h.settle(name))
	s.Remove(name)
	return s.Read(name)
}

func isForeign(t *Tunnel) { t.Finalizers = append(t.Finalizers, foreign) }

// A cache may show an object from before its provider finished. Whether the object has been deleted since, or another
// finalizer keeps it: no work is repeated, by the same process or another process, and there is no event.
func TestTerminate_WithAnOldView(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		events := &recorder{}
		o.Events = events
		for name, change := range map[string]func(*Tunnel){"gone": func(*Tunnel) {}, "kept": isForeign} {
			for _, other := range []bool{false, true} {
				name := fmt.Sprintf("%s-%v", name, other)
				var sold shop
				var v view
				h := s.replica(o, v.client(s), sold.sells())
				old := s.deleted(h, name, change)
				must(t, h.settle(name))
				if v.old = old; other {
					h = s.replica(o, v.client(s), sold.sells())
				}
				for range 3 {
					if result, err := h.pass(name); err != nil || result.RequeueAfter > time.Second {
						t.Errorf("%s: got result %v, error %v", name, result, err)
					}
				}
				sold.expectOnce(t, name)
				if n := sold.Count("terminate again " + name); n > 0 && !other {
					t.Errorf("%s: Terminate was called %d times after it finished", name, n)
				}
			}
		}
		if all := events.all(); len(all) > 0 {
			t.Errorf("got events %q, want none", all)
		}
		s.expectLeases(0)
	})
}

// An admission webhook, or a lack of permissions, may prevent the removal of the finalizer.
func TestTerminate_WhenTheFinalizerCannotBeRemoved(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		for name, other := range map[string]bool{"same": false, "other": true} {
			var sold shop
			var v view
			h := s.replica(o, v.client(s), sold.sells())
			s.deleted(h, name)
			v.refused = 2
			for range 2 {
				if _, err := h.pass(name); !apierrors.IsForbidden(err) {
					t.Errorf("%s: got error %v, want Forbidden", name, err)
				}
				if other {
					h = s.replica(o, v.client(s), sold.sells())
				}
			}
			must(t, h.settle(name))
			s.ExpectGone(name)
			sold.expectOnce(t, name)
			if n := sold.Count("terminate again " + name); n > 0 && !other {
				t.Errorf("%s: Terminate was called %d times after it finished", name, n)
			}
		}
		s.expectLeases(0)
	})
}

// A process that ends between the removal of the finalizer and the deletion of the Lease leaves the Lease to a sweep.
func TestSweep_AfterACrash(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	o := named(places["in a Lease"])
	o.Name = name + "-crash" // The tests share an API server, and each Host sweeps the Leases of its name.
	var sold shop
	for name, change := range map[string]func(*Tunnel){"gone": func(*Tunnel) {}, "kept": isForeign} {
		var p process
		var v view
		h := s.replica(o, p.client(v.client(s)), sold.sells())
		s.deleted(h, name, change)
		v.patched = p.kill
		testkit.Fails(t, testkit.Err(h.pass(name)), name, "process survives the kill")
	}
	if f := s.Read("kept").Finalizers; !slices.Equal(f, []string{foreign}) || len(s.leases()) != 2 {
		t.Fatalf("got finalizers %v, Leases %+v", f, s.leases())
	}
	s.start(o, sold.sells())
	s.expectLeases(0)
	s.Make("next") // When it is charged for, the other Tunnels have been reconciled.
	s.expectSoon("next", metav1.ConditionTrue, "Charged")
	sold.expectOnce(t, "gone")
	sold.expectOnce(t, "kept")
}

func TestSweep_LeavesWhatIsNeeded(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	o, theirs, longer := named(places["in a Lease"]), named(places["in a Lease"]), named(places["in a Lease"])
	theirs.Name, longer.Name = "theirs", name+"-too"
	h := s.host(o)
	clock := h.SetClock(t.Context())
	s.Make("there")
	s.guard(h, "there", done, nil)
	for _, other := range []options{theirs, longer} {
		s.Make("gone")
		s.guard(s.host(other), "gone", done, nil)
		s.Remove("gone")
	}
	s.Make("held")
	var p process
	doomed := newHost(t, p.client(s), o)
	ctx, cancel := context.WithCancel(t.Context())
	p.bury = cancel
	doomed.SetClock(ctx)
	err := s.controller(doomed, "held").Guard(t.Context(), "dig", func(context.Context, guard.Attempt) (guard.Outcome, error) {
		p.kill()
		return done, nil
	})
	testkit.Fails(t, err, "outcome was written after the kill")
	s.Remove("held")
	s.Make("again") // has the name of a deleted tunnel
	s.guard(h, "again", done, nil)
	s.Remove("again")
	s.Make("again")

	left := func() (objects []string) {
		for _, l := range s.leases() {
			objects = append(objects, l.Annotations["guard.clusterfx.dev/object"])
		}
		slices.Sort(objects)
		return objects
	}
	of := func(names ...string) (objects []string) {
		for _, name := range names {
			objects = append(objects, "Tunnel.example.com "+s.Key(name).String())
		}
		return objects
	}
	for _, blind := range []bool{true, false} {
		v := view{blind: blind}
		old, err := guard.NewHost(v.client(s), s, o)
		must(t, err)
		must(t, old.Sweep(t.Context()))
	}
	must(t, h.Sweep(t.Context()))
	testkit.Equal(t, left(), of("gone", "gone", "held", "there"), "Leases after a sweep")
	clock.Skip(ttl)
	must(t, h.Sweep(t.Context()))
	testkit.Equal(t, left(), of("gone", "gone", "there"), "Leases after the lock has expired")
	must(t, s.host(theirs).Sweep(t.Context()))
	must(t, s.host(longer).Sweep(t.Context()))
	testkit.Equal(t, left(), of("there"), "Leases after the sweeps of the other hosts")
	must(t, s.host(inStatus()).Sweep(t.Context()))
}

// SPDX-License-Identifier: Apache-2.0

package mode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/lease"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(fleettest.Main(m, fleettest.NoLeaks())) }

const (
	// patience is the time that a test waits for a condition that takes some seconds.
	patience = 2 * time.Minute
	// duration is that of a Lease of leader mode.
	duration = 3 * time.Second
	// every is the time between two reads.
	every = 50 * time.Millisecond
	ours  = metav1.NamespaceDefault + "/" + installation
)

var must, eventually = testkit.Must, testkit.Eventually

// hall is the Lease of leader mode of a test on a real API server.
type hall struct {
	t       *testing.T
	server  *fleet.Cluster
	leases  coordinationv1client.LeaseInterface
	options Options
}

func newHall(t *testing.T) *hall {
	t.Helper()
	server := fleettest.Cluster(t, "hub")
	kube, err := kubernetes.NewForConfig(server.Config())
	must(t, err)
	return &hall{t: t, server: server, leases: kube.CoordinationV1().Leases(metav1.NamespaceDefault), options: Options{
		Config: server.Config(), Namespace: metav1.NamespaceDefault, Installation: metav1.NamespaceDefault, Identity: "tester",
		Name:     strings.ToLower(strings.NewReplacer("_", "-", "/", "-").Replace(t.Name())),
		Duration: duration, Every: every, Log: testr.New(t),
	}}
}

// lease returns the Lease; nil if it is missing.
func (h *hall) lease() *coordinationv1.Lease {
	h.t.Helper()
	found, err := h.leases.Get(h.t.Context(), h.options.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(h.t, err)
	return found
}

// put creates the Lease with a holder.
func (h *hall) put(holder string) {
	h.t.Helper()
	seconds := int32(duration / time.Second)
	_, err := h.leases.Create(h.t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: h.options.Name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds},
	}, metav1.CreateOptions{})
	must(h.t, err)
}

func (h *hall) change(f func(*coordinationv1.Lease)) {
	h.t.Helper()
	eventually(h.t, func() error {
		l := h.lease()
		f(l)
		_, err := h.leases.Update(h.t.Context(), l, metav1.UpdateOptions{})
		return err
	})
}

func (h *hall) remove() {
	h.t.Helper()
	h.change(func(l *coordinationv1.Lease) { l.Finalizers = nil })
	must(h.t, h.leases.Delete(h.t.Context(), h.options.Name, metav1.DeleteOptions{}))
}

func (h *hall) expect(want string, has func(lock) bool) {
	h.t.Helper()
	eventually(h.t, func() error {
		if l := decode(h.lease()); !has(l) {
			return fmt.Errorf("the Lease is %+v, want %s", l, want)
		}
		return nil
	})
}

func isOurs(l lock) bool {
	return l.holder == ours && l.duration == forever && l.guarded && !l.wayBack
}

// sharded starts a Sharded. The function ends it.
func (h *hall) sharded() (s *Sharded, end func()) {
	h.t.Helper()
	s, err := NewSharded(h.options)
	must(h.t, err)
	return s, h.run(s.Run)
}

func (h *hall) wayBack(running func() []string) (w *WayBack, end func()) {
	h.t.Helper()
	w, err := NewWayBack(h.options, func(context.Context) ([]string, error) { return running(), nil })
	must(h.t, err)
	return w, h.run(w.Run)
}

func (h *hall) run(f func(context.Context)) (end func()) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	end = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	h.t.Cleanup(end)
	return end
}

// candidate starts a hub in leader mode. The function gives the Lease back.
func (h *hall) candidate(identity string) (c *lease.Candidacy, giveBack func()) {
	h.t.Helper()
	c, err := lease.New(lease.Options{
		Config: h.options.Config, Namespace: h.options.Namespace, Name: h.options.Name, Identity: identity,
		Duration: duration, RenewDeadline: 2 * time.Second, RetryPeriod: every,
	})
	must(h.t, err)
	c.Ask()
	end := h.run(c.Run)
	return c, func() {
		end()
		must(h.t, c.GiveBack(h.t.Context()))
	}
}

func (h *hall) await(s *Sharded) context.Context {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	permitted, err := s.Await(ctx)
	must(h.t, err)
	must(h.t, s.Confirm(h.t.Context()))
	if why := s.Waiting(); why != "" {
		h.t.Errorf("it %s while replicas may work", why)
	}
	return permitted
}

// expectWaits waits until a Sharded says what it waits for, and fails the test if replicas may work.
func (h *hall) expectWaits(s *Sharded, what string) {
	h.t.Helper()
	eventually(h.t, func() error {
		if got := s.Waiting(); !strings.Contains(got, what) {
			return fmt.Errorf("it %s, want %s", got, what)
		}
		return nil
	})
	testkit.ErrorIs(h.t, s.Confirm(h.t.Context()), ErrNotSharded, "Confirm")
}

func (h *hall) expectEnd(permitted context.Context) {
	t := h.t
	t.Helper()
	testkit.Closed(t, "replicas may not work", permitted.Done())
	if !errors.Is(context.Cause(permitted), ErrNotSharded) {
		t.Errorf("the cause is %v, want ErrNotSharded", context.Cause(permitted))
	}
}

// Replicas wait while a hub in leader mode works, and say for what, and begin when it has given the Lease back. Another hub in leader
// mode stands by for much longer than its own duration, also after the Lease was deleted, and is elected when all replicas have ended.
func TestMode_ThereAndBack(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	hub, giveBack := h.candidate("first")
	<-hub.Held()
	s, endSharded := h.sharded()
	h.expectWaits(s, "hub in leader mode first, which holds the Lease default/"+h.options.Name)
	must(t, hub.Check())
	giveBack()
	permitted := h.await(s)
	h.expect("that of the installation", isOurs)

	last, _ := h.candidate("last")
	var looks atomic.Int64
	var over atomic.Bool
	back, _ := h.wayBack(func() []string {
		looks.Add(1)
		if over.Load() {
			return nil
		}
		return []string{"a", "b"}
	})
	must(t, h.leases.Delete(t.Context(), h.options.Name, metav1.DeleteOptions{}))
	since := time.Now()
	eventually(t, func() error {
		if n := looks.Load(); n < 20 || time.Since(since) < 2*duration {
			return fmt.Errorf("%d looks in %s", n, time.Since(since))
		}
		return nil
	})
	if permitted.Err() != nil || last.Check() == nil {
		t.Error("the mode has changed while replicas run")
	}
	if got := back.Waiting(); !strings.Contains(got, "until none of these runs: a, b") {
		t.Errorf("the hub %s, want the names of the replicas", got)
	}
	endSharded()
	h.expectEnd(permitted)
	h.expect("that of the installation", func(l lock) bool { return l.holder == ours }) // It outlasts the replicas.
	over.Store(true)
	<-last.Held()
	if got := back.Waiting(); got != "" {
		t.Errorf("the hub %s although it is elected", got)
	}
}

// A hub in leader mode that is killed keeps the replicas waiting until its Lease has expired. A missing Lease counts as one that is
// unchanged, because a hub in leader mode may have lost it a moment ago.
func TestMode_Expired(t *testing.T) {
	t.Parallel()
	for name, holder := range map[string]string{"killed": "killed", "missing": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHall(t)
			if holder != "" {
				h.put(holder)
			}
			began := time.Now()
			s, _ := h.sharded()
			h.expectWaits(s, "waits")
			h.await(s)
			if took := time.Since(began); took < duration {
				t.Errorf("replicas may work after %s, want %s at least", took, duration)
			}
		})
	}
}

// A Lease that an administrator has changed is restored. A Lease that is removed in spite of its finalizer ends the permit, and so does
// one that a hub in leader mode has acquired.
func TestMode_Administrator(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	h.put("")
	s, _ := h.sharded()
	permitted := h.await(s)
	for _, f := range []func(*coordinationv1.Lease){
		func(l *coordinationv1.Lease) { l.Finalizers = nil },
		func(l *coordinationv1.Lease) { *l.Spec.LeaseDurationSeconds = 15 },
		func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "" },
	} {
		h.change(f)
		h.expect("restored", isOurs)
	}
	if permitted.Err() != nil {
		t.Error("the permit has ended although the installation has the Lease")
	}
	h.remove()
	h.expectEnd(permitted)
	permitted = h.await(s)
	other := "a hub in leader mode"
	h.change(func(l *coordinationv1.Lease) {
		seconds := int32(duration / time.Second)
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Finalizers = &other, &seconds, nil
	})
	h.expectEnd(permitted)
	h.await(s) // It has expired.
}

// Confirm finds a change before Run does, and ends the permit.
func TestMode_Confirm(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	h.put("")
	h.options.Every = patience
	s, _ := h.sharded()
	permitted := h.await(s)
	h.change(func(l *coordinationv1.Lease) { metav1.SetMetaDataAnnotation(&l.ObjectMeta, annotationWayBack, "hub") })
	testkit.ErrorIs(t, s.Confirm(t.Context()), ErrNotSharded)
	h.expectEnd(permitted)
}

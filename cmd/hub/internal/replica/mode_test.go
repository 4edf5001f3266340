// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// errOtherMode is the error of a mode that is off.
var errOtherMode = errors.New("the installation is in another mode")

type modeSwitch struct {
	mu        sync.Mutex
	permitted context.Context //nolint:containedctx // Ends when the mode is switched off.
	end       context.CancelFunc
	on        chan struct{}
	refuses   bool // Confirm returns an error
	confirmed int
}

func newModeSwitch() *modeSwitch { return &modeSwitch{on: make(chan struct{})} }

func (m *modeSwitch) Await(ctx context.Context) (permitted context.Context, err error) {
	m.mu.Lock()
	on := m.on
	m.mu.Unlock()
	select {
	case <-on:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.permitted, nil
}

func (m *modeSwitch) Confirm(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.confirmed++
	if m.refuses {
		return errOtherMode
	}
	return nil
}

func (m *modeSwitch) confirms() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.confirmed
}

func (m *modeSwitch) refuse(refuses bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuses = refuses
}

func (m *modeSwitch) turnOn() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.permitted, m.end = context.WithCancel(context.Background()) //nolint:forbidigo // It ends with turnOff.
	close(m.on)
}

func (m *modeSwitch) turnOff() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on = make(chan struct{})
	m.end()
}

// observe returns the names that an Observer finds running, or an error in their place.
func (w *installation) observe(o *Lookout) []string {
	w.t.Helper()
	names, err := o.Running(w.t.Context())
	if err != nil {
		return []string{err.Error()}
	}
	return names
}

func (w *installation) observer() *Lookout {
	w.t.Helper()
	o, err := NewObserver(w.cluster.Config(), w.namespace, inNoHurry())
	must(w.t, err)
	w.t.Cleanup(o.Close)
	return o
}

// inNoHurry is the timing of an Observer that waits for a response as long as a test does: an error is none of a busy machine.
func inNoHurry() shards.Timing {
	timing := quick()
	timing.Deadline = patience
	return timing
}

// A replica writes nothing before the mode permits it, and opens no gate before it has confirmed the mode after its claim. When the
// mode changes, it closes its gates and releases everything, and it begins again when the mode is back.
func TestReplica_Mode(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	m := newModeSwitch()
	t.Cleanup(func() { m.turnOff() })
	a := w.startUnhurried("a", func(o *Options) { o.Mode = m })
	b := w.startUnhurried("b")
	w.expectShared(b) // for a time in which a would have got its part
	if l := w.lease("a"); l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "" || m.confirms() > 0 {
		t.Errorf("a has claimed its Lease in another mode: %+v", l.Spec)
	}
	m.refuse(true)
	m.turnOn()
	eventually(t, "a asks for the mode after its claim", func() bool { return m.confirms() > 3 && w.incarnation("a") != "" })
	if err := a.Check(); !errors.Is(err, ErrNoLease) || a.held() > 0 {
		t.Errorf("a works although the mode is not confirmed: %v, %d shards", err, a.held())
	}
	m.refuse(false)
	w.expectShared(a, b)
	release := a.hold(slices.IndexFunc(w.uids, func(one types.UID) bool { _, err := a.Gate(one); return err == nil }))
	m.turnOff()
	eventually(t, "the gates of a are closed while a write is in flight", func() bool { return a.held() == 0 })
	testkit.ErrorIs(t, a.Check(), ErrNoLease, "in another mode")
	close(release)
	w.expectShared(b)
	eventually(t, "a has given its Lease back", func() bool { return w.incarnation("a") == "" })
	m.turnOn()
	w.expectShared(a, b)
}

// An Observer finds replicas that run, also one that is cut off, until it has ended. It ends the incarnation of the last one, which
// writes no longer when its contact is back.
func TestObserver_Running(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	o := w.observer()
	if names := w.observe(o); len(names) > 0 {
		t.Errorf("%v run in an installation without replicas", names)
	}
	a, b := w.start("a"), w.start("b")
	w.expectShared(a, b)
	eventually(t, "both run", func() bool { return slices.Equal(w.observe(o), []string{"a", "b"}) })
	must(t, b.end())
	eventually(t, "a runs", func() bool { return slices.Equal(w.observe(o), []string{"a"}) })
	w.expectShared(a)
	before := w.incarnation("a")
	a.set(fault.Blackhole())
	eventually(t, "none runs", func() bool { return len(w.observe(o)) == 0 })
	if n := a.held(); n > 0 {
		t.Errorf("%d gates of a are open when it counts as ended", n)
	}
	if got := w.lease("a").Annotations[annotationEnded]; got != before {
		t.Errorf("the Lease says that %q has ended, want %q", got, before)
	}
	a.set(fault.Pass())
	w.expectShared(a) // with another incarnation
	if w.incarnation("a") == before {
		t.Error("the incarnation that has ended is back")
	}
}

// A holder whose Lease an administrator deletes runs until its gate is closed, and so does a replica whose Lease vanishes.
func TestObserver_DeletedLease(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	o := w.observer()
	w.createLease("a", labelReplica)
	w.change("a", patch{"spec": map[string]any{"holderIdentity": "incarnation"}})
	record := newRecord(0, fewShards)
	holder := formatHolder(shards.Holder{Name: "b", Incarnation: "other"})
	record.Spec.HolderIdentity = &holder
	_, err := w.leases().Create(t.Context(), record, metav1.CreateOptions{})
	must(t, err)
	if names := w.observe(o); !slices.Equal(names, []string{"a"}) {
		t.Errorf("%v run, want a", names)
	}
	began := time.Now()
	w.deleteLease("a")
	if names := w.observe(o); !slices.Equal(names, []string{"a"}) {
		t.Errorf("%v run right after the Lease of a was deleted, want a", names)
	}
	var asked time.Time
	eventually(t, "only b runs", func() bool {
		asked = time.Now()
		return slices.Equal(w.observe(o), []string{"b"})
	})
	if took := time.Since(began); took < quick().Duration {
		t.Errorf("a counts as ended after %s, want %s at least", took, quick().Duration)
	}
	began = asked
	eventually(t, "none runs", func() bool { return len(w.observe(o)) == 0 })
	if took := time.Since(began); took < quick().Duration/2 {
		t.Errorf("b counts as ended after %s", took)
	}
}

// After an error, the observation begins again: replicas may have had no contact, either.
func TestObserver_NoContact(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	w.createLease("a", labelReplica)
	w.change("a", patch{"spec": map[string]any{"holderIdentity": "incarnation"}})
	proxy := fleettest.Proxy(t, w.cluster.Server())
	o, err := NewObserver(w.through(proxy), w.namespace, inNoHurry())
	must(t, err)
	t.Cleanup(o.Close)
	w.observe(o)
	must(t, proxy.Set(fault.Refuse()))
	began := time.Now()
	eventually(t, "a time without contact", func() bool {
		_, err := o.Running(t.Context())
		return err != nil && time.Since(began) > quick().Duration
	})
	must(t, proxy.Set(fault.Pass()))
	if names := w.observe(o); !slices.Equal(names, []string{"a"}) || w.incarnation("a") == "" {
		t.Errorf("%v run after a time without contact, want a", names)
	}
}

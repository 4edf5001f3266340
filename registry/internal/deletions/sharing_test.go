// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/holds"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/state"
)

const edge state.ClusterName = "edge"

var errClosed = errors.New("another process has the target")

// sharedHub is a hub whose processes share targets, and one ConfigMap of an API server.
type sharedHub struct {
	t      *testing.T
	store  *ConfigMapStore
	limits deletes.Limits

	mu      sync.Mutex // protects the fields
	now     time.Time
	holders map[state.ClusterName]string
	terms   map[state.ClusterName]int64
	ended   map[string]bool
	standby map[string]bool // processes that have no targets, and not the hub
}

func newSharedHub(t *testing.T) *sharedHub {
	t.Helper()
	direct := fleettest.Client(t, fleettest.Cluster(t, "hub"))
	return &sharedHub{
		t: t, store: &ConfigMapStore{direct, client.ObjectKey{Namespace: fleettest.Namespace(t, direct, "shared-"), Name: "holds"}},
		limits: deletes.Limits{PerTarget: 2, PerFleet: 100},
		now:    time.Now(), holders: map[state.ClusterName]string{}, terms: map[state.ClusterName]int64{}, ended: map[string]bool{},
		standby: map[string]bool{},
	}
}

// move gives a target to a process; to none if the name is empty.
func (h *sharedHub) move(target state.ClusterName, to string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holders[target] = to
	h.terms[target]++
}

// set closes the gate of a target for a moment, or opens it in the same term.
func (h *sharedHub) set(target state.ClusterName, to string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holders[target] = to
}

func (h *sharedHub) end(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended[name] = true
}

func (h *sharedHub) hasEnded(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended[name] || h.standby[name]
}

func (h *sharedHub) setStandby(name string, isStandby bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.standby[name] = isStandby
}

func (h *sharedHub) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

func (h *sharedHub) time() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// newPair returns a hub with two processes, of which the first one has a target.
func newPair(t *testing.T) (h *sharedHub, a, b *process) {
	t.Helper()
	h = newSharedHub(t)
	a, b = h.start("a"), h.start("b")
	h.move(edge, "a")
	return h, a, b
}

func (h *sharedHub) content() *StoreContent {
	h.t.Helper()
	found, err := h.store.Load(h.t.Context())
	must(h.t, err)
	return found
}

// stored returns the holds in the Store, sorted by key.
func (h *sharedHub) stored() (all []ledger.Held) {
	h.t.Helper()
	entries := h.content().Entries
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		replica, _ := holds.ReplicaOf(key)
		all = append(all, heldIn(entries[key], replica)...)
	}
	return all
}

func (h *sharedHub) expectStored(when string, ids ...string) {
	h.t.Helper()
	expectIDs(h.t, when, h.stored(), ids...)
}

func expectIDs(t *testing.T, when string, all []ledger.Held, ids ...string) {
	t.Helper()
	found := []string{}
	for _, one := range all {
		found = append(found, one.ID)
	}
	if fmt.Sprint(found) != fmt.Sprint(ids) {
		t.Errorf("%s: the holds are %v, want %v", when, found, ids)
	}
}

// write writes an entry as another process.
func (h *sharedHub) write(key, text string) {
	h.t.Helper()
	must(h.t, testkit.Err(h.store.Write(h.t.Context(), "", map[string]string{key: text})))
}

func uidOf(target state.ClusterName) types.UID { return types.UID("uid-of-" + target) }

type process struct {
	*Guard
	hub     *sharedHub
	name    string
	changes map[state.ClusterName]int
	sent    int
	silent  state.ClusterName // whose app does not run
	app     state.ClusterName // whose app deletes in the hub
}

// start starts a process: it reads the Store. The process without a name is alone and has all targets.
func (h *sharedHub) start(name string) *process {
	h.t.Helper()
	p := &process{hub: h, name: name, changes: map[state.ClusterName]int{}}
	o := Options{
		Store: h.store, Replica: name, Now: h.time,
		Place: func(target state.ClusterName) (types.UID, int64, error) {
			term, closed := p.term(target)
			return uidOf(target), term, closed
		},
		Module:  func(context.Context) string { return "pruner" },
		App:     func(context.Context) state.ClusterName { return p.app },
		Blind:   func(context.Context) string { return "" },
		Silent:  func(target state.ClusterName) bool { return target == p.silent },
		Limits:  func(string, map[string]string) deletes.Limits { return h.limits },
		Counted: func(string, state.ClusterName, deletes.EvidenceKind, int) {},
		Refused: func(string, state.ClusterName, deletes.Reason) {},
		Began:   func(ledger.Held, bool) {}, Ended: func(ledger.Held) {},
		Changed: func(target state.ClusterName) { p.changes[target]++ },
	}
	if name != "" {
		o.IsAlive = func(replica string) bool { return !h.hasEnded(replica) }
	}
	p.Guard = New(o)
	must(h.t, testkit.Err(p.read(h.t.Context())))
	return p
}

func (p *process) term(target state.ClusterName) (int64, error) {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	switch {
	case p.name == "" || target == "" && !p.hub.standby[p.name]:
		return 0, nil
	case p.hub.holders[target] != p.name:
		return 0, errClosed
	}
	return p.hub.terms[target], nil
}

// delete deletes an object in a target, as the module.
func (p *process) delete(target state.ClusterName, i int) error {
	p.hub.t.Helper()
	path := fmt.Sprintf("https://192.0.2.1/api/v1/namespaces/n/configmaps/o-%d", i)
	r := testkit.Request(p.hub.t, http.MethodDelete, path)
	to := Target{}
	if target != "" {
		to = Target{Name: target, UID: uidOf(target), Term: func() (int64, error) { return p.term(target) }}
	}
	response, err := p.RoundTrip(to, r, func(r *http.Request) (*http.Response, error) {
		if _, closed := p.term(target); target != "" && closed != nil {
			return transport.Refuse(r, closed)
		}
		if r.URL.RawQuery == "" {
			p.sent++
		}
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
	})
	if err == nil {
		response.Body.Close()
	}
	return err
}

// exceed deletes as many objects as the limit permits, and one more. It returns the id of the hold.
func (p *process) exceed(target state.ClusterName, permitted int) string {
	p.hub.t.Helper()
	for i := range permitted {
		if err := p.delete(target, i); err != nil {
			p.hub.t.Fatalf("delete %d: %v", i, err)
		}
	}
	return p.expectHeld("beyond the limit", target, permitted)
}

// expectHeld expects that a delete is held, and returns the id of the hold.
func (p *process) expectHeld(when string, target state.ClusterName, i int) string {
	p.hub.t.Helper()
	var held *deletes.HeldError
	if err := p.delete(target, i); !errors.As(err, &held) || held.ID == "" {
		p.hub.t.Fatalf("%s: %s got %v, want a hold", when, p.name, err)
	}
	return held.ID
}

func (p *process) upkeep() {
	p.hub.t.Helper()
	if err := p.keepUp(p.hub.t.Context()); err != nil {
		p.hub.t.Fatalf("the upkeep of %s: %v", p.name, err)
	}
}

func (p *process) expectHolds(when string, ids ...string) {
	p.hub.t.Helper()
	expectIDs(p.hub.t, p.name+" "+when, p.Holds(), ids...)
}

// A hold of a target, of the hub or of the fleet stays while an app that has asked for its deletes does not run, as that of a paused
// Cluster: it cannot ask. The hold ends a Window after the app runs again. An app that had not asked for a Window keeps nothing.
func TestSharing_HoldOfASilentTarget(t *testing.T) {
	t.Parallel()
	for what, of := range map[string]struct {
		in       state.ClusterName
		perFleet int
	}{"target": {edge, 100}, "hub": {"", 100}, "fleet": {"other", 2}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := newSharedHub(t)
			h.limits.PerFleet = of.perFleet
			p := h.start("")
			p.app = edge
			id := p.exceed(of.in, 2)
			if of.in == "other" { // The hold begins in one target, and another one asks, too.
				p.expectHeld("in all targets", edge, 2)
			}
			p.silent = edge
			for range 3 {
				p.upkeep()
				h.pass(ledger.Window - time.Second)
			}
			p.silent = ""
			p.upkeep()
			p.expectHolds("after the app ran again", id)
			h.pass(ledger.Window)
			p.silent = edge
			p.upkeep()
			p.expectHolds("after a Window")
		})
	}
}

// A hold is in force in the second process before its first delete in the target. The first process neither changes nor removes
// it, and neither does a third one that starts. What an operator has allowed is used up only once, wherever the target moves.
func TestSharing_HoldMoves(t *testing.T) {
	t.Parallel()
	h, a, b := newPair(t)
	id := a.exceed(edge, 2)
	h.move(edge, "b")
	testkit.Equal(t, b.expectHeld("before the first delete", edge, 3), id, "the hold")
	b.upkeep()
	before := h.content().Version
	h.pass(ledger.Window + time.Minute) // a would end the hold, which was asked for in b alone.
	b.expectHeld("later", edge, 3)
	c := h.start("c")
	for range 2 {
		a.upkeep()
		c.upkeep()
	}
	if got := h.content().Version; got != before {
		t.Error("processes that do not have the target have written to the Store")
	}
	a.expectHolds("after the move")
	b.expectHolds("after the move", id)
	c.expectHolds("after the move")
	must(t, b.Allow(t.Context(), edge, id+"=2"))
	for i := range 2 {
		if err := b.delete(edge, 10+i); err != nil {
			t.Fatalf("an allowed delete: %v", err)
		}
	}
	b.expectHeld("the allowance is used up", edge, 12)
	for _, p := range []*process{a, b, c, a} {
		h.move(edge, p.name)
		testkit.Equal(t, p.expectHeld("after another move", edge, 12), id, "the hold")
	}
}

// A target that comes back before the first process has noticed that it was away has the holds of the Store: a hold that has ended
// meanwhile is not in force.
func TestSharing_ThereAndBack(t *testing.T) {
	t.Parallel()
	h, a, b := newPair(t)
	id := a.exceed(edge, 2)
	h.move(edge, "b")
	b.expectHeld("in the second process", edge, 2)
	must(t, b.Allow(t.Context(), edge, id+"=1"))
	must(t, b.delete(edge, 2))
	h.move(edge, "a")
	a.expectHeld("back, with an allowance that is used up", edge, 3)
	must(t, a.Allow(t.Context(), edge, id+"=1"))
	a.expectHeld("the same allowance again", edge, 3)
	h.move(edge, "b")
	b.upkeep()
	b.expectHeld("in the second process again", edge, 3)
	h.pass(ledger.Window + time.Minute)
	b.upkeep()
	h.expectStored("after the end of the hold")
	h.move(edge, "a")
	a.upkeep()
	if err := a.delete(edge, 4); err != nil {
		t.Errorf("a delete after the end of the hold: %v", err)
	}
	h.expectStored("after a delete")
}

// A hold that has ended here stays ended: what waited for a read that another call did takes nothing from the Store again.
func TestSharing_ReadOnce(t *testing.T) {
	t.Parallel()
	h, a, _ := newPair(t)
	a.exceed(edge, 2)
	again := h.start("a")
	again.expectHeld("after a restart", edge, 2)
	again.waiting[edge] = place{string(uidOf(edge)), 1}
	h.pass(ledger.Window)
	again.upkeep()
	again.expectHolds("after a Window")
	h.expectStored("after a Window")
}

// While the gate is closed, deletes are refused with its error, count nothing and make no hold. When it opens again in the same
// term, the hold is in force.
func TestSharing_Closed(t *testing.T) {
	t.Parallel()
	h, a, b := newPair(t)
	id := a.exceed(edge, 2)
	h.set(edge, "")
	for i := range 10 {
		testkit.ErrorIs(t, b.delete(edge, i), errClosed, "a delete without the target")
	}
	a.upkeep()
	b.upkeep()
	h.expectStored("while the gate is closed", id)
	expectIDs(t, "while the gate is closed", append(a.Holds(), b.ledger.Holds()...))
	h.set(edge, "a")
	if got := a.expectHeld("open again", edge, 5); got != id || a.sent != 2 {
		t.Errorf("the hold is %s after %d deletes, want %s after 2", got, a.sent, id)
	}
}

// The hold of a target that has moved is shown, and an operator can allow its deletes, before the module asks for one.
func TestSharing_ShownWithoutDeletes(t *testing.T) {
	t.Parallel()
	h := newSharedHub(t)
	a, b := h.start("a"), h.start("b")
	b.upkeep()
	h.move(edge, "a")
	id := a.exceed(edge, 2)
	h.move(edge, "b")
	if s := b.Shown(edge); s.Known {
		t.Errorf("the state is %+v before the Store was read, want that it is not known", s)
	}
	b.upkeep()
	if s := b.Shown(edge); !s.Known || len(s.Holds) != 1 || s.Holds[0].ID != id || b.changes[edge] == 0 {
		t.Errorf("the state is %+v, want the hold %s", s, id)
	}
	must(t, b.Allow(t.Context(), edge, id+"=1"))
	if err := b.delete(edge, 5); err != nil {
		t.Errorf("an allowed delete: %v", err)
	}
}

// What a process that had the target writes late has no effect, and is repaired by the process that has it. Its entry has the term.
func TestSharing_LateWrites(t *testing.T) {
	t.Parallel()
	h, a, b := newPair(t)
	id, key := a.exceed(edge, 2), string(uidOf(edge))
	old := h.content().Values[key]
	h.move(edge, "b")
	b.expectHeld("moved", edge, 2)
	must(t, b.Allow(t.Context(), edge, id+"=1"))
	for what, text := range map[string]string{"overwritten": old, "removed": ""} {
		h.write(key, text)
		b.upkeep()
		if found := h.content().Entries[key]; found.Term != 2 || found.Holds[id].Granted != 1 || len(b.Holds()) != 1 || b.Holds()[0].Granted != 1 {
			t.Errorf("%s: the Store has %+v, want the hold with its allowance in term 2", what, found)
		}
	}
	h.pass(ledger.Window)
	b.upkeep()
	h.write(key, old)
	h.pass(lookEvery)
	b.upkeep()
	b.expectHolds("after a late write of a hold that has ended")
	h.expectStored("after a late write of a hold that has ended")
}

// The removal of a target ends a hold that the process has not read yet. A process that has nothing to do with it restores nothing.
func TestSharing_Forget(t *testing.T) {
	t.Parallel()
	h, a, b := newPair(t)
	h.move("other", "a")
	a.exceed(edge, 2)
	kept := a.exceed("other", 2)
	h.move(edge, "b")
	b.Forget(edge, uidOf(edge))
	h.set(edge, "")
	b.upkeep()
	h.expectStored("after the removal", kept)
	a.upkeep()
	h.expectStored("after the upkeep of the first process", kept)
}

// A target that moves between two steps of the upkeep keeps its hold in the Store: a hold that has ended in this process is removed
// only while this process has the target.
func TestSharing_RemovesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	h := newSharedHub(t)
	a := h.start("a")
	h.move(edge, "a")
	id := a.exceed(edge, 2)
	h.pass(ledger.Window)
	a.ledger.Expire(a.options.Now())
	h.move(edge, "b")
	must(t, a.storeChanges(t.Context()))
	h.expectStored("after the target has moved", id)
}

var must = testkit.Must

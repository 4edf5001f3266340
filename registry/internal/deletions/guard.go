// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/internal/evidence"
	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/state"
)

// LimitsFor returns the limits of a module for a kind.
func LimitsFor(resource schema.GroupResource, of deletes.Limits) ledger.Limits {
	usual := ledger.LimitsFor(resource)
	return ledger.Limits{
		PerTarget: cmp.Or(max(of.PerTarget, 0), usual.PerTarget), PerFleet: cmp.Or(max(of.PerFleet, 0), usual.PerFleet),
	}
}

// Store keeps the Holds: an entry with all Holds of a target, under the UID of its Cluster, and one of each process with
// its Holds of the hub and the fleet. Its methods must end with ctx, and after a few seconds.
type Store interface {
	// Load returns, with an error, what it could read; nil if nothing.
	Load(ctx context.Context) (*StoreContent, error)
	// Write sets the values of keys, and removes the keys with an empty one. With a version it does nothing, and
	// returns false, if the Store has another one.
	Write(ctx context.Context, version string, values map[string]string) (done bool, err error)
	// Claim records a removal unless limit others are in the Window. It reports whether the removal is recorded, also
	// earlier, and how many others are.
	Claim(ctx context.Context, uid types.UID, limit int, now time.Time) (claimed bool, others int, err error)
}

// Options describe a Guard. All are required but Replica, IsAlive and App.
type Options struct {
	Store Store
	// Replica names this process if several share the Store. IsAlive reports whether another one is alive, and true if
	// unknown; it must return at once. Nil means that this process has all stored Holds.
	Replica string
	IsAlive func(replica string) bool
	// Place returns the UID of a target's Cluster and the term in which this process has it, or an error if it does
	// not. The term must change whenever another process had the target. For the hub, which has the empty name, it
	// returns only an error, while others may take over the Holds of this process. It must return at once.
	Place func(target state.ClusterName) (uid types.UID, term int64, closed error)
	// Module returns the module on whose behalf a context acts; "hub" for code of the hub.
	Module func(context.Context) string
	// App returns the target whose app a context acts for; empty for none.
	App func(context.Context) state.ClusterName
	// Blind returns the kind of an informer of that module, in the App of the context, without current objects; or "".
	Blind func(context.Context) string
	// Silent reports whether a target's app does not run, so that no module asks for deletes there. It must return at
	// once.
	Silent func(target state.ClusterName) bool
	Limits func(module string, labels map[string]string) deletes.Limits
	// Counted is called for each delete that was sent and not refused, with its evidence, or "".
	Counted func(module string, target state.ClusterName, evidence deletes.EvidenceKind, objects int)
	Refused func(module string, target state.ClusterName, reason deletes.Reason)
	// Began is called when a Hold begins or is restored, Ended when it ends. Both must return at once.
	Began func(h ledger.Held, restored bool)
	Ended func(h ledger.Held)
	// Changed is called after a change of a target's State. It must return at once.
	Changed func(target state.ClusterName)
	Now     func() time.Time
}

// Guard decides about the deletes of all modules of a hub. It is safe for use by many goroutines.
type Guard struct {
	options Options

	// writing has one token: its holder may write to the Store.
	writing chan struct{}

	ledger *ledger.Ledger

	reads singleflight.Group // of the Store, for calls that wait

	mu      sync.Mutex // protects the fields
	shown   shown
	places  map[state.ClusterName]place // whose Holds the ledger has; that of the hub has the empty name
	waiting map[state.ClusterName]place // that the next read is for
	stored  map[string]saved            // as the Store has the entries of this process, by key
	gone    map[string]bool             // keys of removed targets, which the Store may have
	looked  time.Time                   // when the upkeep last read the Store; only the upkeep uses it
}

// New returns a Guard. It sends no request.
func New(o Options) *Guard {
	g := &Guard{
		options: o, writing: make(chan struct{}, 1), ledger: ledger.New(), shown: newShown(), places: map[state.ClusterName]place{},
		waiting: map[state.ClusterName]place{}, stored: map[string]saved{}, gone: map[string]bool{},
	}
	g.unlockStore()
	return g
}

// Send is the part of a transport below the Guard.
type Send func(*http.Request) (*http.Response, error)

// Target is where requests are sent. All but Judge are zero for the hub.
type Target struct {
	Name   state.ClusterName
	UID    types.UID // UID is that of Place in Options.
	Labels map[string]string
	// Blind returns the kind of an informer of a module in the target's app without current objects, or "".
	Blind func(module string) string
	// Term returns that of Place; nil in a process that has all targets.
	Term  func() (term int64, closed error)
	Judge *evidence.Judge
}

// RoundTrip sends a request to a target, or refuses it with a *deletes.HeldError.
func (g *Guard) RoundTrip(target Target, r *http.Request, send Send) (*http.Response, error) {
	if !mutates(r.Method) {
		return send(r)
	}
	info := requestinfo.OfInnermost(r.URL.Path)
	what := actionOf(r, info)
	resource := schema.GroupResource{Group: info.Group, Resource: info.Resource}
	if what == other || isPassing(resource) {
		return send(r)
	}
	one := g.on(r.Context(), target, resource)
	one.send, one.what, one.info = send, what, info
	if what == mayCreate {
		return one.create(r)
	}
	return one.delete(r)
}

// on begins a call of the module on whose behalf ctx acts.
func (g *Guard) on(ctx context.Context, target Target, resource schema.GroupResource) *call {
	return &call{guard: g, target: target, key: ledger.Key{
		Module: g.options.Module(ctx), Resource: resource, Target: target.Name, Cause: deletes.CauseIn(ctx),
	}}
}

type call struct {
	guard *Guard
	send  Send
	what  action
	info  requestinfo.Info
	key   ledger.Key

	target Target
	place  place // whose Holds are known
}

func (c *call) create(r *http.Request) (*http.Response, error) {
	response, err := c.send(r)
	if err != nil || response.StatusCode != http.StatusCreated || isDryRun(r.URL.Query()["dryRun"]) {
		return response, err
	}
	c.created()
	return response, nil
}

func (c *call) created() {
	c.guard.ledger.Created(c.key, c.guard.options.Now())
}

func (c *call) delete(r *http.Request) (*http.Response, error) {
	options, err := optionsOf(r, c.what)
	if err != nil && !errors.Is(err, errOptions) {
		return transport.Refuse(r, err)
	}
	if err == nil && isDryRun(options.DryRun) {
		return c.send(r)
	}
	ask, kind, err := c.ask(r.Context())
	if err != nil {
		return transport.Refuse(r, err)
	}
	if ask == nil {
		return c.sendUncounted(r, kind)
	}
	if err := c.know(r.Context()); err != nil {
		return transport.Refuse(r, err)
	}
	ask.Name = c.name(r)
	if c.what == deletesMany {
		return c.deleteAll(r, *ask, options)
	}
	if options != nil && options.Preconditions != nil && options.Preconditions.UID != nil {
		ask.UID = *options.Preconditions.UID
	}
	if c.what == deletesOne && options != nil {
		return c.deleteOne(r, *ask, options)
	}
	return c.sendCounted(r, *ask)
}

// ask returns what the ledger has to decide; nil for a delete that does not count, with the kind of its evidence, or "".
func (c *call) ask(ctx context.Context) (ask *ledger.Request, kind deletes.EvidenceKind, err error) {
	note := ""
	if declared, isDeclared := deletes.EvidenceOf(ctx); isDeclared {
		err := c.check(ctx, declared)
		if err == nil {
			return nil, declared.Kind, nil
		}
		if !errors.Is(err, evidence.ErrNone) {
			return nil, "", c.held(deletes.NoEvidence, fmt.Errorf("the evidence for the delete does not hold: %w", err))
		}
		note = noteParents + strings.TrimPrefix(err.Error(), evidence.ErrNone.Error()+": ")
		note = note[:min(len(note), maxNote)]
	}
	limits := c.guard.options.Limits(c.key.Module, c.target.Labels)
	if slices.Contains(limits.Exempt, c.key.Resource) {
		return nil, "", nil
	}
	if kind := c.blind(ctx); kind != "" {
		return nil, "", c.held(deletes.SourceStale, fmt.Errorf(
			"module %s does not delete while it has no current objects of %s", c.key.Module, kind))
	}
	ask = &ledger.Request{Key: c.key, Limits: LimitsFor(c.key.Resource, limits), Owned: deletes.OwnedIn(ctx), Note: note}
	if note != "" {
		ask.Cause = "" // What goes with its parents is asked for by nothing that exists.
	}
	return ask, "", nil
}

var errNoKind = errors.New("it is of no kind; make it with Terminating, Tombstone or Confirmed")

// maxNote is in bytes, which the Store keeps.
const maxNote = 100

// noteParents begins the note of a Hold of deletes whose evidence is none.
const noteParents = "Of a parent: "

// check returns an error that wraps evidence.ErrNone if the delete counts like any other.
func (c *call) check(ctx context.Context, e deletes.Evidence) error {
	switch e.Kind {
	case deletes.KindTerminating:
		if e.Err != nil {
			return e.Err
		}
		ctx, _ = transport.WithExchange(ctx) // The requests of the judge are not those of the module.
		return c.target.Judge.Terminating(ctx, e.Parent)
	case deletes.KindTombstone, deletes.KindConfirmed, deletes.KindCleanup:
		return e.Err
	}
	return cmp.Or(e.Err, errNoKind)
}

func (c *call) sendUncounted(r *http.Request, kind deletes.EvidenceKind) (*http.Response, error) {
	response, err := c.send(r)
	if err == nil && isSuccess(response) && kind != "" {
		c.guard.options.Counted(c.key.Module, c.key.Target, kind, 1)
	}
	return response, err
}

func (c *call) blind(ctx context.Context) string {
	if kind := c.guard.options.Blind(ctx); kind != "" || c.target.Blind == nil {
		return kind
	}
	return c.target.Blind(c.key.Module)
}

func (c *call) name(r *http.Request) string {
	name := c.info.Name
	if c.what == deletesMany {
		name = "all"
		if selector := r.URL.Query().Get("labelSelector"); selector != "" {
			name += " with " + selector
		}
	}
	if c.info.Namespace != "" {
		name = c.info.Namespace + "/" + name
	}
	return name[:min(len(name), maxName)]
}

// maxName is for a name with a selector of any length. Names of objects are shorter.
const maxName = 320

// sendCounted takes the count back if the API server has refused the delete.
func (c *call) sendCounted(r *http.Request, ask ledger.Request) (*http.Response, error) {
	o := &c.guard.options
	ticket, err := c.admit(r.Context(), ask)
	if err != nil {
		return transport.Refuse(r, err)
	}
	response, err := c.send(r)
	if err == nil && isSuccess(response) {
		o.Counted(c.key.Module, c.key.Target, "", max(ask.Objects, 1))
	}
	switch {
	case transport.IsUnsent(err), err == nil && response.StatusCode >= 400 && response.StatusCode < 500:
		ticket.Refund(o.Now())
	case c.what == deletesOne && ask.UID == "":
		if uid, isLeft := objectIn(response); ticket.Answered(uid, isLeft, o.Now()) {
			ticket.Refund(o.Now())
		}
	}
	return response, err
}

// admit counts a delete, or returns the error of the refusal. Its Hold is stored.
func (c *call) admit(ctx context.Context, ask ledger.Request) (*ledger.Ticket, error) {
	ask.Replica, ask.From = c.guard.options.Replica, c.app(ctx)
	one := c.tryAdmit(ask)
	for ; !one.isKnown; one = c.tryAdmit(ask) {
		if err := c.know(ctx); err != nil {
			return nil, err
		}
	}
	err := c.save(ctx, one.store, one.held)
	if err != nil && one.ticket != nil {
		one.ticket.Unstored(c.guard.options.Now())
	}
	return one.ticket, err
}

// app returns the target whose app asks, or that it asks for.
func (c *call) app(ctx context.Context) state.ClusterName {
	if c.target.Name != "" || c.guard.options.App == nil {
		return c.target.Name
	}
	return c.guard.options.App(ctx)
}

func (c *call) save(ctx context.Context, store *ledger.Held, held error) error {
	var err error
	if store != nil {
		if held != nil { // The upkeep shows how much of an allowance is used.
			c.guard.options.Began(*store, false)
			c.guard.show(store.Target())
		}
		err = c.guard.store(ctx, store)
	}
	var hold *ledger.HeldError
	switch {
	case errors.As(held, &hold):
		if err != nil {
			held = fmt.Errorf("%w (the hold cannot be stored: %w)", held, err)
		}
		c.guard.options.Refused(c.key.Module, c.key.Target, deletes.LimitExceeded)
		return &deletes.HeldError{Reason: deletes.LimitExceeded, ID: hold.Hold.ID, Err: held}
	case err != nil:
		return c.held(deletes.StoreUnavailable, err)
	}
	return nil
}

func (c *call) held(reason deletes.Reason, err error) error {
	c.guard.options.Refused(c.key.Module, c.key.Target, reason)
	if reason == deletes.StoreUnavailable {
		c.guard.unavailable(c.key.Target, err)
	}
	return &deletes.HeldError{Reason: reason, Err: err}
}

func isSuccess(response *http.Response) bool {
	return response.StatusCode >= http.StatusOK && response.StatusCode < http.StatusMultipleChoices
}

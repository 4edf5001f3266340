// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// entry is a rule in one app, in one generation. It has no goroutine but for its begin.
type entry struct {
	rules.Rule
	engine *engine
	params Params
	// drains: the rule does not select the Cluster any more, and only gives up what it has made.
	drains  bool
	idle    *report // of one that does not work, as it lacks something, has ended or is invalid; set before others see the entry
	began   time.Time
	allowed atomic.Int64 // the generation whose held deletes are allowed
	edit    edit         // of the rule's reconcile

	ctx    context.Context //nolint:containedctx // The life of the entry.
	cancel context.CancelFunc

	hubRules []rbac.NamespacedRules // what the rule needs in the hub, set by check

	// Set by open.
	limit   limit // for rules from remotes
	pair    *syncer.Pair
	opened  *syncer.Opened
	table   *table
	watches []*member
	// namespaces are those of the originals, for a rule that selects them by labels.
	namespaces client.Reader
	places     *feed // of them

	live     atomic.Int64 // when the rule was read as the entry has it, in Unix nanoseconds
	recheck  atomic.Bool  // an API server has refused something
	rechecks rate.Sometimes

	mu      sync.Mutex // protects the fields; held for a few instructions
	free    sync.Cond  // nothing is in work
	inWork  int
	parked  keys
	first   keys // requests of the first pass; nil after it
	joined  bool // the entry has the first objects of all that it watches
	seen    keys // the selected originals
	trouble map[hubv1.SyncProblemReason]keys
}

type keys = sets.Set[types.NamespacedName]

// edit is a change of the rule that is not followed yet.
type edit struct {
	generation  int64
	first, last time.Time
}

func newEntry(e *engine, r rules.Rule, drains bool) *entry {
	one := &entry{
		Rule: r, engine: e, params: e.params, drains: drains, began: time.Now(), rechecks: rate.Sometimes{Interval: e.shared.periods.recheck},
		parked: keys{}, first: keys{}, seen: keys{}, trouble: map[hubv1.SyncProblemReason]keys{},
	}
	one.free.L = &one.mu
	one.ctx, one.cancel = context.WithCancel(e.ctx)
	return one
}

func (e *entry) isFor(r rules.Rule, drains bool) bool {
	return e.UID == r.UID && e.Generation == r.Generation && e.drains == drains
}

// editedFor returns how long to wait, since a rule may be edited many times. e may be nil.
func (e *entry) editedFor(r rules.Rule, at time.Time) time.Duration {
	if e == nil || e.UID != r.UID || e.Generation >= r.Generation {
		return 0
	}
	if e.edit.first.IsZero() {
		e.edit.first = at
	}
	if e.edit.generation != r.Generation {
		e.edit.generation, e.edit.last = r.Generation, at
	}
	wait := min(editQuiet-at.Sub(e.edit.last), editWait-at.Sub(e.edit.first))
	if wait <= 0 {
		e.edit = edit{}
	}
	return wait
}

func (e *entry) lacks() bool { return e.idle != nil && len(e.idle.Problems) > 0 }

// allow reports whether held deletes are allowed now that were not.
func (e *entry) allow(generation int64) bool {
	return e.allowed.Swap(generation) != generation && generation == e.Generation
}

func (e *entry) run() {
	if e.places != nil { // Not before: the first pass waits for each request, and a table drops those of an entry that does not run.
		e.places.set(e, &member{Watched: syncer.Watched{Observe: inNamespace}, concerns: func(*metav1.ObjectMeta) bool { return true }})
	}
	waits := time.AfterFunc(e.engine.shared.periods.settled, e.changed) // What still waits then is a problem.
	context.AfterFunc(e.ctx, func() { waits.Stop() })
	e.engine.running.Go(e.begin)
}

// begin ends when the entry has the first objects of all that it watches.
func (e *entry) begin() {
	for _, one := range e.watches {
		_ = wait.PollUntilContextCancel(e.ctx, kindAgain, true, func(ctx context.Context) (bool, error) {
			return one.join(ctx, e) == nil, nil
		})
	}
	e.findMoved(e.ctx, e.EarlierNamespaces(e.engine.cluster))
	e.mu.Lock()
	e.joined = e.ctx.Err() == nil
	e.endFirst()
	e.mu.Unlock()
	e.changed()
}

// request asks for reconciles of originals. An empty name stands for all of a namespace, or for all.
func (e *entry) request(keys ...types.NamespacedName) {
	for _, key := range keys {
		e.mu.Lock()
		if e.first != nil {
			e.first.Insert(key)
		}
		e.mu.Unlock()
		e.table.queue.Add(request{e.Name, key})
	}
}

func (e *entry) reconcile(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
	if key.Name != "" {
		return e.opened.Reconcile(ctx, reconcile.Request{NamespacedName: key})
	}
	all := listOf(e.GVK())
	err := e.opened.Originals.Reader().List(ctx, all, client.InNamespace(key.Namespace))
	for i := range all.Items {
		e.request(client.ObjectKeyFromObject(&all.Items[i]))
	}
	return reconcile.Result{}, err
}

// findMoved finds copies in the hub where an earlier generation has made them, which no watch delivers. Where the rule may no longer
// read, they stay.
func (e *entry) findMoved(ctx context.Context, namespaces []string) {
	copies := client.MatchingLabels{e.Identity(placeOf(e.params)).Keys().ManagedBy: e.Tenant(placeOf(e.params))}
	for _, namespace := range namespaces {
		all := listOf(e.GVK())
		_ = wait.PollUntilContextCancel(ctx, kindAgain, true, func(ctx context.Context) (bool, error) {
			err := e.params.HubClient.List(ctx, all, copies, client.InNamespace(namespace))
			if apierrors.IsForbidden(err) {
				e.params.Logger.Info("Copies of a rule may be left in a namespace where the hub may no longer list", "rule", e.Name, "namespace", namespace)
				return true, nil
			}
			return err == nil, nil
		})
		for i := range all.Items {
			e.request(e.opened.Copies.Observe(ctx, &all.Items[i], false)...)
		}
	}
}

// stop returns when nothing of the entry is in work.
func (e *entry) stop() {
	e.close()
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.inWork > 0 {
		e.free.Wait()
	}
}

// close ends an entry that does not run.
func (e *entry) close() {
	e.cancel()
	e.engine.leave(e)
	if e.pair != nil {
		e.pair.Close()
	}
}

// take reports whether a request may have a worker. Otherwise it has one when another request of the rule has given it back.
func (e *entry) take(key types.NamespacedName) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		return false
	}
	if e.inWork >= workersOfRule {
		e.parked.Insert(key)
		return false
	}
	delete(e.parked, key)
	e.inWork++
	return true
}

func (e *entry) give() (next types.NamespacedName, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.inWork--; e.inWork == 0 {
		e.free.Broadcast()
	}
	return e.parked.PopAny()
}

func (e *entry) isParked(key types.NamespacedName) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.parked.Has(key)
}

// done: an object that fails is a problem, and does not keep the first pass from its end.
func (e *entry) done(key types.NamespacedName) {
	e.mu.Lock()
	delete(e.first, key)
	e.endFirst()
	e.mu.Unlock()
	e.changed()
}

func (e *entry) changed() {
	e.engine.shared.touch(e.Name)
	if e.drains {
		e.engine.again.Add(e.Name, lookEvery) // It may be drained.
	}
}

// endFirst needs the lock.
func (e *entry) endFirst() {
	if e.joined && len(e.first) == 0 {
		e.first = nil
	}
}

func (e *entry) isSynced() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.joined
}

func (e *entry) isDrained() bool {
	e.mu.Lock()
	followed := e.first == nil && e.inWork == 0 && len(e.parked) == 0
	e.mu.Unlock()
	return followed && e.opened != nil && e.opened.Count() == 0
}

// report gets the outcome of each reconcile.
func (e *entry) report(o syncer.Outcome) {
	reason := reasonOf(o)
	e.mu.Lock()
	if o.Selected {
		e.seen.Insert(o.Key)
	} else {
		e.seen.Delete(o.Key)
	}
	if reason != "" || o.Err == nil {
		for _, about := range e.trouble {
			about.Delete(o.Key)
		}
		maps.DeleteFunc(e.trouble, func(_ hubv1.SyncProblemReason, about keys) bool { return len(about) == 0 })
	}
	if reason != "" {
		if e.trouble[reason] == nil {
			e.trouble[reason] = keys{}
		}
		e.trouble[reason].Insert(o.Key)
	}
	e.mu.Unlock()
	if o.Refused {
		e.refused()
	}
}

func reasonOf(o syncer.Outcome) hubv1.SyncProblemReason {
	switch o.Reason {
	case syncer.ReasonNameConflict:
		return hubv1.SyncConflict
	case syncer.ReasonStatusReduced, syncer.ReasonUndeclared:
		return hubv1.SyncFieldNotDeclared
	case syncer.ReasonContended, syncer.ReasonRejected, syncer.ReasonNamespaceMissing, reasonOverLimit, rules.ReasonPatchFailed:
		return hubv1.SyncProblemReason(o.Reason)
	}
	if deletes.IsHeld(o.Err) {
		return hubv1.SyncHeld
	}
	return ""
}

// isInConflict: an original waits for the name of its copy.
func (e *entry) isInConflict() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.trouble[hubv1.SyncConflict]) > 0
}

// requestProblems requests the objects with held deletes again.
func (e *entry) requestProblems() {
	e.mu.Lock()
	held := e.trouble[hubv1.SyncHeld].UnsortedList()
	e.mu.Unlock()
	e.request(held...) // none without a table
}

// refused: an API server has refused a watch or a write, or lacks the kind.
func (e *entry) refused() {
	e.rechecks.Do(func() {
		e.recheck.Store(true)
		e.engine.again.Add(e.Name, 0)
	})
}

// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
	"github.com/clusterfx/clusterfx/registry/watch"
)

const (
	kindAgain = 10 * time.Second
	// A rule that is edited is followed when it has not changed for editQuiet, at the latest after editWait.
	editQuiet = time.Second
	editWait  = 30 * time.Second
	// unneededFor is how long an informer of a remote stays that no rule needs.
	unneededFor = time.Minute
	tidyEvery   = time.Second
	// ruleWorkers set up rules of one remote, or report rules of the hub.
	ruleWorkers = 4
)

// SetUp follows the SyncRules of the hub in the app of a remote.
func SetUp(p Params) error {
	return errors.Join(p.Manager.Add(newEngine(p)), p.Manager.Add(&remains{params: p}))
}

// engine is the remote part in one app: it has an entry for each rule that works there. A rule that lacks something, or fails, affects
// its entry only.
type engine struct {
	params      Params
	cluster     string
	shared      *shared
	statuses    *rate.Limiter // limits the writes of status of all rules
	hub, remote *registry.Reviews
	rules       *hubobjects.Objects // set by Start
	ctx         context.Context     //nolint:containedctx // Of Start: the life of all entries.
	running     sync.WaitGroup      // goroutines of entries

	again watch.Requests // of rules

	mu      sync.Mutex // protects the fields; held for a few instructions
	entries map[string]*entry
	looked  map[string]int64 // the generation of rules that do not select the Cluster and have no copies there
	tables  map[tableKey]*table
	feeds   map[any]*feed // by View in the hub, and by keyOf in the remote
}

func newEngine(p Params) *engine {
	return &engine{
		params: p, cluster: string(p.Name), shared: p.Shared, statuses: syncer.NewStatusLimiter(),
		hub: registry.NewReviews(p.HubClient), remote: registry.NewReviews(p.Client),
		entries: map[string]*entry{}, looked: map[string]int64{}, tables: map[tableKey]*table{},
		feeds: map[any]*feed{},
	}
}

// Start owns the entries: it returns when they have ended.
func (e *engine) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-e.shared.exists: // Without a rule an app watches nothing, and has no controller.
	}
	e.ctx = ctx
	e.shared.join(e)
	defer e.stop()
	if !e.awaitRules(ctx) {
		return nil
	}
	err := registry.ControllerManagedBy(e.params.Manager).Named("sync-rules").
		WithOptions(controller.Options{MaxConcurrentReconciles: ruleWorkers}).
		WatchesRawSource(e.rules.Requests()).
		WatchesRawSource(registry.Changed(e.params.Facts, e.all)).
		WatchesRawSource(e.again.Source()).
		Complete(e)
	if err != nil {
		return err
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) { e.endUnneeded(ctx, time.Now()) }, tidyEvery)
	return nil
}

// awaitRules waits for the definition of SyncRules, without which a hub works but for this module.
func (e *engine) awaitRules(ctx context.Context) bool {
	told := false
	err := wait.PollUntilContextCancel(ctx, kindAgain, true, func(context.Context) (ok bool, err error) {
		e.rules, err = e.params.HubObjects.Watch(hubobjects.Selection{Object: &hubv1.SyncRule{}, Route: hubobjects.All()})
		if err != nil && !told {
			e.params.Logger.Error(err, "Failed to watch SyncRules; the hub tries again")
			told = true
		}
		return err == nil, nil
	})
	return err == nil
}

// all requests every rule, since the labels of the Cluster have changed, and the originals of those with patches.
func (e *engine) all(ctx context.Context) []reconcile.Request {
	e.mu.Lock()
	entries := slices.Collect(maps.Values(e.entries))
	e.mu.Unlock()
	for _, one := range entries {
		if len(one.Patches) > 0 && one.idle == nil {
			one.request(types.NamespacedName{})
		}
	}
	return allRules(ctx, e.rules, e.params.Logger)
}

func allRules(ctx context.Context, from client.Reader, log logr.Logger) (requests []reconcile.Request) {
	var list hubv1.SyncRuleList
	if err := from.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		log.Error(err, "Failed to list the SyncRules after a change of a Cluster")
	}
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

func (e *engine) stop() {
	e.mu.Lock()
	all := slices.Collect(maps.Values(e.entries)) // They stay, for what they say.
	e.mu.Unlock()
	for _, one := range all {
		one.stop()
	}
	e.running.Wait()
}

// Reconcile makes an entry follow its rule.
func (e *engine) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	found := &hubv1.SyncRule{}
	err := e.rules.Get(ctx, req.NamespacedName, found)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	if err != nil { // It was not seen to end: nobody knows what is meant for its copies, so they stay.
		e.replace(req.Name, nil)
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.looked, req.Name)
		return reconcile.Result{}, nil // It is not found.
	}
	if !controllerutil.ContainsFinalizer(found, hubv1.FinalizerSyncRule) { // Its end could be missed. It is about to have one, or has ended.
		return reconcile.Result{}, nil
	}
	rule, err := e.shared.rules.Compile(found)
	if err == nil && !rule.IsTerminating {
		err = e.params.Config.Allow.Check(rule)
	}
	if err != nil {
		e.rest(rules.Rule{Name: found.Name, UID: found.UID}, false, report{Generation: found.Generation})
		return reconcile.Result{}, nil // The condition Valid says why.
	}
	if rule.IsTerminating {
		return e.end(ctx, rule, found)
	}
	now := e.entry(req.Name)
	if !rule.IsRecorded() { // It is about to be.
		return reconcile.Result{}, nil
	}
	if wait := now.editedFor(rule, time.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	allowed, _ := strconv.ParseInt(found.Annotations[hubv1.AnnotationAllowHeld], 10, 64) // What is no number allows nothing.
	selected := rule.SelectsCluster(e.params.Labels())
	if now != nil && now.isFor(rule, !selected) {
		return e.keep(ctx, now, allowed)
	}
	if !selected {
		if left, err := e.hasCopies(ctx, rule); err != nil || !left {
			e.replace(req.Name, nil)
			return reconcile.Result{}, err
		}
	}
	return e.follow(ctx, rule, !selected, allowed)
}

// keep looks after an entry that follows its rule, or lacks something.
func (e *engine) keep(ctx context.Context, now *entry, allowed int64) (reconcile.Result, error) {
	if now.allow(allowed) {
		now.requestProblems()
	}
	switch {
	case now.lacks():
		if wait := e.shared.periods.lack - time.Since(now.began); wait > 0 { // An event of the rule, such as a write of its status.
			return reconcile.Result{RequeueAfter: wait}, nil
		}
		return e.follow(ctx, now.Rule, now.drains, allowed)
	case now.drains && now.isDrained():
		e.replace(now.Name, nil)
		return reconcile.Result{}, nil
	case !now.recheck.Swap(false):
		return reconcile.Result{}, nil
	}
	problems, err := now.check(ctx, true)
	if err != nil {
		now.recheck.Store(true)
		return reconcile.Result{RequeueAfter: wait.Jitter(e.shared.periods.lack, 0.25)}, nil //nolint:nilerr // The API server does not tell.
	}
	if len(problems) > 0 {
		return e.lack(now, problems), nil
	}
	return reconcile.Result{}, nil
}

// follow replaces the entry of a rule.
func (e *engine) follow(ctx context.Context, rule rules.Rule, drains bool, allowed int64) (reconcile.Result, error) {
	next := newEntry(e, rule, drains)
	next.allow(allowed)
	problems, err := next.check(ctx, false)
	if err == nil && len(problems) == 0 {
		err = next.open(ctx)
	}
	switch {
	case err != nil:
		next.close()
		return reconcile.Result{}, err
	case len(problems) > 0:
		next.close()
		return e.lack(next, problems), nil
	}
	e.replace(rule.Name, next)
	next.run()
	return reconcile.Result{}, nil
}

// lack stops the entry, and nothing else. It is tried again when it could have changed, at the latest after a time.
func (e *engine) lack(next *entry, problems problems) reconcile.Result {
	e.rest(next.Rule, next.drains, report{Generation: next.Generation, Problems: problems})
	return reconcile.Result{RequeueAfter: wait.Jitter(e.shared.periods.lack, 0.25)}
}

// rest has an entry that does not work.
func (e *engine) rest(rule rules.Rule, drains bool, says report) {
	one := newEntry(e, rule, drains)
	one.idle = &says
	one.close()
	e.replace(rule.Name, one)
}

func (e *engine) entry(rule string) *entry {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.entries[rule]
}

// replace ends the entry before: only then the next one, which may be nil, works. A rule has one worker.
func (e *engine) replace(rule string, next *entry) {
	if before := e.entry(rule); before != nil {
		before.stop()
	}
	e.mu.Lock()
	if e.entries[rule] = next; next == nil {
		delete(e.entries, rule)
	}
	e.mu.Unlock()
	e.shared.touch(rule)
}

// end deals with what a rule that is being deleted has made, by the deletionPolicy. It is called again until that is done, while nothing
// else of the rule works. A definition of SyncRules that is being deleted takes all rules with it, and is no reason to touch a copy.
func (e *engine) end(ctx context.Context, rule rules.Rule, found *hubv1.SyncRule) (reconcile.Result, error) {
	switch now := e.entry(rule.Name); {
	case now == nil:
	case now.idle == nil:
		e.rest(rule, false, report{Generation: rule.Generation})
	case now.idle.Ended && now.isFor(rule, false): // An event of the rule, such as a write of its status.
		return reconcile.Result{}, nil
	}
	err := registry.DeletedOnPurpose(ctx, e.params.HubClient, e.params.HubClient, found)
	if err == nil {
		err = newCleaner(e.params, rule).endCopies(deletes.OnPurpose(ctx, deletes.Terminating(found)))
	}
	e.rest(rule, false, report{Generation: rule.Generation, Ended: err == nil})
	return reconcile.Result{}, err
}

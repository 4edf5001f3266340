// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry"
)

const (
	// workers of a kind and direction, of which one rule has at most workersOfRule.
	workers       = 10
	workersOfRule = workers / 2
	workTimeout   = time.Minute

	retryBase, retryMax = 5 * time.Millisecond, 5 * time.Minute
)

// request is for an original of a rule.
type request struct {
	Rule string
	types.NamespacedName
}

// String is for logs.
func (r request) String() string { return r.Rule + ": " + r.NamespacedName.String() }

type tableKey struct {
	kind hubv1.SyncKind
	from hubv1.SyncSource
}

// table is the controller of one kind and direction in an app, for all rules about it. It stays until the app ends.
type table struct {
	engine *engine
	begun  chan struct{} // closed when queue is set
	queue  workqueue.TypedRateLimitingInterface[request]
}

// table returns that of a rule.
func (e *engine) table(r rules.Rule) (*table, error) {
	key := tableKey{r.Kind, r.From}
	e.mu.Lock()
	defer e.mu.Unlock()
	if t := e.tables[key]; t != nil {
		return t, nil
	}
	t := &table{engine: e, begun: make(chan struct{})}
	name := strings.ToLower(strings.ReplaceAll(fmt.Sprintf("sync-%s-%s", r.From, r.GVK().GroupKind()), ".", "-"))
	err := registry.TypedControllerManagedBy[request](e.params.Manager).Named(name).
		WithOptions(controller.TypedOptions[request]{
			MaxConcurrentReconciles: workers, ReconciliationTimeout: workTimeout,
			RateLimiter: patient{workqueue.NewTypedItemExponentialFailureRateLimiter[request](retryBase, retryMax), t},
		}).
		WatchesRawSource(source.TypedFunc[request](t.begin)).
		Complete(t)
	if err != nil {
		return nil, fmt.Errorf("add the controller %s: %w", name, err)
	}
	e.tables[key] = t
	return t, nil
}

func (t *table) begin(_ context.Context, queue workqueue.TypedRateLimitingInterface[request]) error {
	t.queue = queue
	close(t.begun)
	return nil
}

// entry returns that of a rule, or nil if the rule does not work, or is about another kind now.
func (t *table) entry(rule string) *entry {
	if one := t.engine.entry(rule); one != nil && one.table == t {
		return one
	}
	return nil
}

// Reconcile is skipped for a rule that has all the workers that it may have, until one of them is free.
func (t *table) Reconcile(ctx context.Context, req request) (reconcile.Result, error) {
	one := t.entry(req.Rule)
	if one == nil || !one.take(req.NamespacedName) {
		return reconcile.Result{}, nil
	}
	defer func() {
		if next, ok := one.give(); ok {
			t.queue.Add(request{req.Rule, next})
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(one.ctx, cancel)()
	result, err := one.reconcile(ctx, req.NamespacedName)
	if one.ctx.Err() != nil {
		return reconcile.Result{}, nil // A later entry does the rest.
	}
	one.done(req.NamespacedName)
	return result, err
}

// patient does not forget the failures of a request that was skipped.
type patient struct {
	workqueue.TypedRateLimiter[request]
	table *table
}

func (p patient) Forget(r request) {
	if one := p.table.entry(r.Rule); one == nil || !one.isParked(r.NamespacedName) {
		p.TypedRateLimiter.Forget(r)
	}
}

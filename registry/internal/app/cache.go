// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/state"
)

// NewCache makes the cache of the app, as code of the hub sees it.
func (l *Life) NewCache(config *rest.Config, o ctrlcache.Options) (ctrlcache.Cache, error) {
	c, err := cache.New(config, o, l.cacheOptions())
	if err != nil {
		return nil, err
	}
	if err := l.addFilters(c); err != nil {
		return nil, err
	}
	l.cache.Store(c)
	l.Metrics.FollowCache(l.ctx, string(l.Name), c.Measure, func(held func(kind string, objects, bytes int64), stale func(kind string)) {
		for kind, t := range c.Held() {
			held(kind, t.Objects, t.Bytes)
		}
		for _, one := range c.Stale(time.Now()) {
			stale(one.Kind)
		}
	})
	return c.As("", l.Guard(""), false), nil
}

func (l *Life) cacheOptions() cache.Options {
	return cache.Options{
		Context: l.ctx, Scheme: l.Scheme, Log: l.Log, Timeout: l.Desired.Client.Timeout, Meter: l.intake, Unstreamed: l.Unstreamed,
		Limits: cache.Limits{
			MaxObjects: int64(l.Limits.MaxObjects), MaxBytes: int64(l.Limits.MaxCacheBytes),
			StaleAfter: l.Limits.StaleAfter, StaleTolerance: l.Limits.StaleTolerance,
			Handling: l.Limits.ReconcileTimeout, Sync: l.Limits.SyncTimeout,
		},
		Blocked: l.Blocked, Missed: l.Missed, Stale: l.changed, Fail: l.cacheFailed,
		Goroutines: l.Contained.Goroutines, Reader: contain.ModuleOf, Undeclared: l.Undeclared,
	}
}

func (l *Life) cacheFailed(err error) {
	failed := &ModuleError{Reason: state.ReasonModuleFailed, Err: err}
	if over := (*cache.OverBudgetError)(nil); errors.As(err, &over) {
		failed.Module, failed.Reason, failed.Problem = over.Module, state.ReasonOverBudget, over.Problem
	}
	l.fail(failed)
}

func (l *Life) addFilters(c *cache.Cache) error {
	if l.Filters == nil {
		return nil
	}
	filters := l.Filters()
	for _, module := range slices.Sorted(maps.Keys(filters)) {
		by := contain.NewContainer(l.Contained, module, l.Log.WithValues("module", module))
		if err := c.AddFilters(module, filters[module], by.Transform); err != nil {
			return &ModuleError{Module: module, Reason: state.ReasonBuildFailed, Err: fmt.Errorf("cache filters: %w", err)}
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/clusterfx/clusterfx/registry/internal/boundcache"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// newCache makes the cache of the app, as code of the hub sees it.
func (e *epoch) newCache(config *rest.Config, o cache.Options) (cache.Cache, error) {
	handlers := contain.NewHandlers(e.contained)
	c, err := boundcache.New(config, o, e.cacheOptions(handlers))
	if err != nil {
		return nil, err
	}
	if err := e.addFilters(c); err != nil {
		return nil, err
	}
	e.cache.Store(c)
	e.metrics.FollowCache(e.ctx, string(e.name), figuresOf(c))
	return contain.NewCache(c, handlers, e.guard("", e.log)), nil
}

func (e *epoch) cacheOptions(h *contain.Handlers) boundcache.Options {
	return boundcache.Options{
		Context: e.ctx, Scheme: e.scheme, Log: e.log, Timeout: e.config.Client.Timeout, Meter: e.intake,
		Limits: boundcache.Limits{
			MaxObjects: int64(e.limits.MaxObjects), MaxBytes: int64(e.limits.MaxCacheBytes),
			StaleAfter: e.limits.StaleAfter, StaleTolerance: e.limits.StaleTolerance,
			Refresh: e.limits.ReconcileTimeout,
		},
		Blocked: e.tracker.blocked, Missed: e.missed, Stale: e.tracker.changed, Arrived: h.Check, Fail: e.cacheFailed,
		Reader: readerIn,
	}
}

// figuresOf returns the metrics of a cache.
func figuresOf(c *boundcache.Cache) telemetry.Cache {
	return telemetry.Cache{
		Held: func() []telemetry.Held {
			var all []telemetry.Held
			for kind, t := range c.Held() {
				all = append(all, telemetry.Held{Kind: kind, Objects: t.Objects, Bytes: t.Bytes})
			}
			return all
		},
		Stale: func() []string {
			var kinds []string
			for _, one := range c.Stale(time.Now()) {
				kinds = append(kinds, one.Kind)
			}
			return kinds
		},
	}
}

// readerIn returns the module on whose behalf a context reads.
func readerIn(ctx context.Context) string {
	if g := contain.GuardOf(ctx); g != nil {
		return g.Module
	}
	return ""
}

// cacheFailed ends the app because of its cache.
func (e *epoch) cacheFailed(err error) {
	failed := &moduleError{reason: state.ReasonModuleFailed, err: err}
	if over := (*boundcache.OverBudgetError)(nil); errors.As(err, &over) {
		failed.module, failed.reason = over.Module, state.ReasonOverBudget
	}
	e.tracker.fail(failed)
}

// addFilters makes the filtered caches of the modules. The cache of a hub part has none: it holds objects of the hub.
func (e *epoch) addFilters(c *boundcache.Cache) error {
	if e.name == "" {
		return nil
	}
	for i := range e.modules {
		m := &e.modules[i]
		by := e.guard(m.name, e.log.WithValues("module", m.name))
		err := c.AddFilters(m.name, e.filtersFor(m), by.Transform)
		if err != nil {
			return &moduleError{module: m.name, reason: state.ReasonBuildFailed, err: fmt.Errorf("cache filters: %w", err)}
		}
	}
	return nil
}

// filtersFor returns the filters of a module in an app. A module that does not run there has the filters of its hub
// part.
func (e *epoch) filtersFor(m *entry) []boundcache.Filter {
	var overrides []int
	if i := slices.IndexFunc(e.chosen, func(c choice) bool { return c.name == m.name }); i >= 0 {
		overrides = e.chosen[i].overrides
	}
	return m.cacheFilters(m.layers(overrides))
}

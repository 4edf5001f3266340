// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/clusterfx/clusterfx/internal/holds"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
	"github.com/clusterfx/clusterfx/registry/state"
)

// AllowAnnotation is the annotation with which an operator allows held deletes: the id of the hold, "=" and the number of
// objects, for several holds separated by commas.
const AllowAnnotation = "clusterfx.dev/allow-deletes"

// Holds returns the Holds in force, sorted by id.
func (g *Guard) Holds() []ledger.Hold {
	if all := g.known(); all != nil {
		return all.Holds()
	}
	return nil
}

// Allow allows the deletes that the value of an AllowAnnotation of a remote names. Ids that are not in force in that remote
// alone have no effect. It returns an error for a value that it cannot read, of which it uses the rest.
func (g *Guard) Allow(ctx context.Context, target state.ClusterName, value string) error {
	bad, failed := g.allow(ctx, value, func(h ledger.Hold) bool { return !h.Fleet && h.Target == target })
	return errors.Join(bad, failed)
}

// allow allows the deletes of those Holds that an annotation may name. It returns the problems of the value and of the Store
// apart from each other.
func (g *Guard) allow(ctx context.Context, value string, may func(ledger.Hold) bool) (bad, failed error) {
	all := g.known()
	if all == nil || value == "" {
		return nil, nil
	}
	allowances, bad := holds.ParseAllowances(value)
	if bad != nil {
		bad = fmt.Errorf("read the annotation %s: %w", AllowAnnotation, bad)
	}
	var problems []error
	for _, id := range slices.Sorted(maps.Keys(allowances)) {
		if h, inForce := all.Hold(id); !inForce || !may(h) {
			continue
		}
		if h := all.Allow(id, allowances[id]); h != nil {
			problems = append(problems, g.store(ctx, id))
			g.changed(*h)
		}
	}
	return bad, errors.Join(problems...)
}

// Forget ends the Holds in a remote that was removed.
func (g *Guard) Forget(target state.ClusterName) {
	if all := g.known(); all != nil {
		g.ended(all.Forget(target))
	}
	g.forget(target)
}

// Run reads the Holds from the Store, also those that another process has stored since this Guard has read them first. Then
// it ends Holds and brings the Store up to date until ctx ends. told is called with the first of several errors of the
// Store that are the same, and with nil after the last.
func (g *Guard) Run(ctx context.Context, every time.Duration, told func(error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	before := ""
	for work := g.read; ; {
		err := work(ctx)
		if ctx.Err() != nil {
			return
		}
		now := ""
		if err != nil {
			now = err.Error()
		} else {
			work = g.keepUp
		}
		if now != before {
			told(err)
		}
		before = now
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// keepUp ends the Holds whose time is up, applies the allowances in the Store and stores the Holds that have changed or that
// the Store has lost, because the hub was restored from a backup or a person has changed them.
func (g *Guard) keepUp(ctx context.Context) error {
	all := g.known()
	stored := g.storedHolds() // Before the Holds in force: a Hold that begins now is not missing there.
	g.ended(all.Expire(g.options.Now()))
	inForce := all.Holds()
	isLost := func(string) bool { return false }
	var bad error
	var problems []error
	if len(inForce) > 0 {
		there, annotations, err := g.options.Store.Load(ctx)
		if err == nil || there != nil { // The Store was read.
			isLost = func(id string) bool {
				return !slices.ContainsFunc(there, func(h ledger.Hold) bool { return h.ID == id })
			}
		}
		problems = append(problems, err)
		bad, err = g.allow(ctx, annotations[AllowAnnotation], func(ledger.Hold) bool { return true })
		problems = append(problems, err)
	}
	var changed []ledger.Hold
	for _, h := range inForce {
		was := stored[h.ID]
		delete(stored, h.ID)
		was.Asked = h.Asked // is not stored
		hasChanged := !reflect.DeepEqual(was, h)
		if hasChanged || isLost(h.ID) {
			problems = append(problems, g.store(ctx, h.ID))
		}
		if hasChanged {
			changed = append(changed, h)
		}
	}
	g.changed(changed...)
	for _, id := range slices.Sorted(maps.Keys(stored)) {
		problems = append(problems, g.store(ctx, id))
	}
	failed := errors.Join(problems...)
	if failed == nil {
		g.available()
	}
	return errors.Join(bad, failed)
}

// store brings the Store up to date with one Hold. One caller at a time writes, so that no older version takes the place of
// a newer one.
func (g *Guard) store(ctx context.Context, id string) error {
	select {
	case <-g.writing:
		defer func() { g.writing <- struct{}{} }()
	case <-ctx.Done():
		return fmt.Errorf("wait for the store of holds: %w", context.Cause(ctx))
	}
	now, inForce := g.known().Hold(id)
	if !inForce {
		if err := g.options.Store.Remove(ctx, id); err != nil {
			return err
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.stored, id)
		return nil
	}
	if err := g.options.Store.Save(ctx, now); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stored[id] = now
	return nil
}

func (g *Guard) storedHolds() map[string]ledger.Hold {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.stored)
}

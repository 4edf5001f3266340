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

// AllowAnnotation allows held deletes: the id of the hold, "=" and the number of objects, several separated by commas.
const AllowAnnotation = "clusterfx.dev/allow-deletes"

// Holds returns the Holds of this process that are in force, sorted by id.
func (g *Guard) Holds() []ledger.Held {
	all := g.known()
	if all == nil {
		return nil
	}
	return slices.DeleteFunc(all.Holds(), func(h ledger.Held) bool { return !g.owns(&h) })
}

// Allow allows the deletes that an AllowAnnotation of a remote names. Ids that are not in force there alone have no
// effect. It fails for a value that it cannot read, and uses the rest of it.
func (g *Guard) Allow(ctx context.Context, target state.ClusterName, value string) error {
	bad, failed := g.allow(ctx, value, func(h ledger.Held) bool { return !h.Fleet && h.Target == target })
	return errors.Join(bad, failed)
}

// allow returns problems of the value and of the Store apart.
func (g *Guard) allow(ctx context.Context, value string, may func(ledger.Held) bool) (bad, failed error) {
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

// Forget ends the Holds of a removed remote, also unread ones in the Store.
func (g *Guard) Forget(target state.ClusterName) {
	if g.isShared() {
		g.forgetIn(target, g.options.Now())
	}
	if all := g.known(); all != nil {
		g.ended(all.Forget(target))
	}
	g.forget(target)
}

// Run reads the Holds, also those that another process has stored meanwhile, then ends Holds and keeps the Store up to
// date until ctx ends. told gets the first of several equal errors of the Store, and nil after the last.
func (g *Guard) Run(ctx context.Context, every time.Duration, told func(error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	before := ""
	for work := g.readFirst; ; {
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

func (g *Guard) readFirst(ctx context.Context) error {
	_, err := g.read(ctx)
	return err
}

// keepUp ends Holds, applies allowances, and stores what has changed, or what the Store has lost after a restore or an
// edit.
func (g *Guard) keepUp(ctx context.Context) error {
	g.leave()
	all := g.known()
	for _, h := range all.Holds() {
		if !h.Fleet && h.Target != "" && g.options.Silent(h.Target) {
			all.Await(h.ID, g.options.Now())
		}
	}
	g.ended(all.Expire(g.options.Now()))
	isLost := func(string) bool { return false }
	var bad, failed error
	if len(all.Holds()) > 0 || g.isDue() {
		before := g.storedHolds()
		var there *StoreContent
		if there, failed = g.look(ctx); there != nil {
			isLost = lostIn(there, before)
			var notAllowed error
			bad, notAllowed = g.allow(ctx, there.Annotations[AllowAnnotation], func(ledger.Held) bool { return true })
			failed = errors.Join(failed, notAllowed)
		}
	}
	if failed = errors.Join(failed, g.storeChanges(ctx, isLost)); failed == nil {
		g.available()
	}
	return errors.Join(bad, failed)
}

func (g *Guard) look(ctx context.Context) (*StoreContent, error) {
	if !g.isShared() {
		return g.options.Store.Load(ctx)
	}
	return g.lookShared(ctx)
}

// lostIn reports whether the Store has lost a Hold that was stored before the read, or has older numbers, as from a
// late write of the process before.
func lostIn(there *StoreContent, before map[string]ledger.Held) func(id string) bool {
	found := map[string]ledger.Held{}
	for _, h := range there.Holds {
		found[h.ID] = h
	}
	return func(id string) bool {
		was, wasStored := before[id]
		now, isStored := found[id]
		return wasStored && (!isStored || now.Granted != was.Granted || now.Used != was.Used)
	}
}

func (g *Guard) storeChanges(ctx context.Context, isLost func(id string) bool) error {
	stored := g.storedHolds() // Before the Holds in force: a Hold that begins now is not missing there.
	var changed []ledger.Held
	var problems []error
	for _, h := range g.known().Holds() {
		was := stored[h.ID]
		delete(stored, h.ID)
		if !g.owns(&h) {
			continue
		}
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
	return errors.Join(problems...)
}

// store lets one caller at a time write, so that no older version replaces a newer one.
func (g *Guard) store(ctx context.Context, id string) error {
	select {
	case <-g.writing:
		defer func() { g.writing <- struct{}{} }()
	case <-ctx.Done():
		return fmt.Errorf("wait for the store of holds: %w", context.Cause(ctx))
	}
	now, inForce := g.known().Hold(id)
	if !inForce {
		return g.unstore(ctx, id)
	}
	if !g.owns(&now) {
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

// unstore: a Hold that has moved with its target is not among the stored ones.
func (g *Guard) unstore(ctx context.Context, id string) error {
	was, isStored := g.storedHolds()[id]
	if !isStored || !g.owns(&was) {
		return nil
	}
	if err := g.options.Store.Remove(ctx, id); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.stored, id)
	return nil
}

func (g *Guard) storedHolds() map[string]ledger.Held {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.stored)
}

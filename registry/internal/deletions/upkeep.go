// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/internal/holds"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
	"github.com/clusterfx/clusterfx/registry/state"
)

// AllowAnnotation allows held deletes: the id of the hold, "=" and the number of objects, several separated by commas.
const AllowAnnotation = "clusterfx.dev/allow-deletes"

// Holds returns the Holds of this process that are in force, sorted by id.
func (g *Guard) Holds() []ledger.Held {
	return slices.DeleteFunc(g.ledger.Holds(), func(h ledger.Held) bool { return h.IsOfTarget() && !g.isHere(h.Target()) })
}

// Allow allows the deletes that an AllowAnnotation of a remote names. Ids that are not in force there alone have no
// effect. It fails for a value that it cannot read, and uses the rest of it.
func (g *Guard) Allow(ctx context.Context, target state.ClusterName, value string) error {
	bad, failed := g.allow(ctx, value, func(h ledger.Held) bool { return !h.Fleet && h.Target() == target })
	return errors.Join(bad, failed)
}

// allow returns problems of the value and of the Store apart.
func (g *Guard) allow(ctx context.Context, value string, may func(ledger.Held) bool) (bad, failed error) {
	if value == "" {
		return nil, nil
	}
	allowances, bad := holds.ParseAllowances(value)
	if bad != nil {
		bad = fmt.Errorf("read the annotation %s: %w", AllowAnnotation, bad)
	}
	var problems []error
	for _, h := range g.ledger.Holds() {
		objects, isNamed := allowances[h.ID]
		if !isNamed || !may(h) {
			continue
		}
		if h := g.ledger.Allow(h.ID, objects); h != nil {
			problems = append(problems, g.store(ctx, h))
			g.show(h.Target())
		}
	}
	return bad, errors.Join(problems...)
}

// Forget ends the Holds of a removed remote, also unread ones in the Store: the upkeep removes their key.
func (g *Guard) Forget(target state.ClusterName, uid types.UID) {
	key := placeIn(target, uid, 0).key
	g.mu.Lock()
	g.gone[key] = true
	delete(g.places, target)
	delete(g.waiting, target)
	delete(g.stored, key)
	delete(g.shown.unavailable, target)
	delete(g.shown.asked, target)
	ended := g.ledger.Forget(target)
	g.mu.Unlock()
	g.ended(ended)
}

// Run reads the Holds, then ends Holds and keeps the Store up to date until ctx ends. told gets the first of several
// equal errors of the Store, and nil after the last.
func (g *Guard) Run(ctx context.Context, every time.Duration, told func(error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for before := ""; ; {
		err := g.keepUp(ctx)
		if ctx.Err() != nil {
			return
		}
		now := ""
		if err != nil {
			now = err.Error()
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

// keepUp ends Holds, applies allowances, and stores what has changed, or what the Store has lost after a restore, an edit,
// or a late write of the process that had the target before.
func (g *Guard) keepUp(ctx context.Context) error {
	g.leave()
	if g.isStandby() {
		g.showAll()
		return nil
	}
	for _, target := range g.ledger.Asking() {
		if target != "" && g.options.Silent(target) {
			g.ledger.Await(target, g.options.Now())
		}
	}
	g.ended(g.ledger.Expire(g.options.Now()))
	var bad, failed error
	if g.isDue() {
		bad, failed = g.look(ctx)
	}
	failed = errors.Join(failed, g.removeGone(ctx), g.storeChanges(ctx))
	g.showAll()
	if failed == nil {
		g.available()
	}
	return errors.Join(bad, failed)
}

func (g *Guard) isStandby() bool {
	_, closed := g.placeOf("")
	return closed != nil
}

// lookEvery is for a process without Holds: those of ended processes wait for a successor.
const lookEvery = 30 * time.Second

func (g *Guard) isDue() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, hubIsRead := g.places[""]
	return !hubIsRead || len(g.ledger.Holds())+len(g.waiting) > 0 ||
		g.options.IsAlive != nil && g.options.Now().Sub(g.looked) >= lookEvery
}

func (g *Guard) look(ctx context.Context) (bad, failed error) {
	began := g.options.Now()
	there, failed := g.read(ctx)
	if there == nil {
		return nil, failed
	}
	g.compare(there)
	if failed == nil {
		g.looked = began
		failed = g.takeOver(ctx, there)
	}
	bad, notAllowed := g.allow(ctx, there.Annotations[AllowAnnotation], func(ledger.Held) bool { return true })
	return bad, errors.Join(failed, notAllowed)
}

// compare notes what the Store has of this process. Whatever is not as this process has it is written again, such as an
// entry with a lower term.
func (g *Guard) compare(there *StoreContent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.stored, func(key string, _ saved) bool { return there.Values[key] == "" })
	for target, p := range g.places {
		g.note(p.key, saved{target, there.Values[p.key]})
	}
}

// removeGone: UIDs never come back, so nothing writes the keys of removed targets again.
func (g *Guard) removeGone(ctx context.Context) error {
	if err := g.lockStore(ctx); err != nil {
		return err
	}
	defer g.unlockStore()
	g.mu.Lock()
	values := map[string]string{}
	for key := range g.gone {
		values[key] = ""
	}
	g.mu.Unlock()
	if len(values) == 0 {
		return nil
	}
	if _, err := g.options.Store.Write(ctx, "", values); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.gone, func(key string, _ bool) bool { _, isRemoved := values[key]; return isRemoved })
	return nil
}

func (g *Guard) storeChanges(ctx context.Context) error {
	var problems []error
	changed := g.changes()
	for _, key := range slices.Sorted(maps.Keys(changed)) {
		problems = append(problems, g.save(ctx, changed[key], key))
	}
	return errors.Join(problems...)
}

// changes returns the keys of what the Store has not, or has otherwise, with the targets.
func (g *Guard) changes() map[string]state.ClusterName {
	g.mu.Lock()
	defer g.mu.Unlock()
	changed := map[string]state.ClusterName{}
	for key, was := range g.stored {
		changed[key] = was.target
	}
	for _, h := range g.ledger.Holds() {
		changed[g.placeFor(&h).key] = ofTarget(&h)
	}
	for key, entry := range g.entries("") {
		if text, err := entry.Text(); err == nil && text == g.stored[key].text {
			delete(changed, key)
		}
	}
	return changed
}

// saved is an entry of this process in the Store. The target is empty for the hub and the fleet.
type saved struct {
	target state.ClusterName
	text   string
}

// note needs g.mu.
func (g *Guard) note(key string, s saved) {
	g.stored[key] = s
	if s.text == "" {
		delete(g.stored, key)
	}
}

func ofTarget(h *ledger.Held) state.ClusterName {
	if h.IsOfTarget() {
		return h.Target()
	}
	return ""
}

// placeFor needs g.mu.
func (g *Guard) placeFor(h *ledger.Held) place {
	if h.IsOfTarget() {
		return g.places[h.Target()]
	}
	return place{key: holds.KeyOf(h.Replica)}
}

func (g *Guard) store(ctx context.Context, h *ledger.Held) error {
	g.mu.Lock()
	key := g.placeFor(h).key
	g.mu.Unlock()
	return g.save(ctx, ofTarget(h), key)
}

// save writes the entry of a target, or of the hub, if it has changed and is this process's.
func (g *Guard) save(ctx context.Context, target state.ClusterName, key string) error {
	if err := g.lockStore(ctx); err != nil {
		return err
	}
	defer g.unlockStore()
	text, hasChanged, err := g.change(target, key)
	if err != nil || !hasChanged {
		return err
	}
	if _, err := g.options.Store.Write(ctx, "", map[string]string{key: text}); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.note(key, saved{target, text})
	return nil
}

// change decides and encodes in one step, so that Holds which leave in between are not removed from the Store.
func (g *Guard) change(target state.ClusterName, key string) (text string, hasChanged bool, err error) {
	p, closed := g.placeOf(target)
	g.mu.Lock()
	defer g.mu.Unlock()
	if closed != nil || !g.isRead(target, p) {
		return "", false, nil
	}
	text, err = g.encode(key)
	return text, text != g.stored[key].text, err
}

// encode returns the value of a key, "" without Holds. It needs g.mu.
func (g *Guard) encode(key string, more ...ledger.Held) (string, error) {
	entry, hasHolds := g.entries(key, more...)[key]
	if !hasHolds {
		return "", nil
	}
	return entry.Text()
}

// entries returns what the Store shall have, under one key or all. It needs g.mu.
func (g *Guard) entries(only string, more ...ledger.Held) map[string]holds.Kept {
	all := map[string]holds.Kept{}
	for _, h := range append(g.ledger.Holds(), more...) {
		p := g.placeFor(&h)
		if only != "" && p.key != only {
			continue
		}
		if all[p.key].Holds == nil {
			all[p.key] = holds.Kept{Term: p.term, Holds: map[string]holds.Saved{}}
		}
		all[p.key].Holds[h.ID] = savedOf(h)
	}
	return all
}

// lockStore lets one caller at a time write, so that no older version replaces a newer one.
func (g *Guard) lockStore(ctx context.Context) error {
	select {
	case <-g.writing:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the store of holds: %w", context.Cause(ctx))
	}
}

func (g *Guard) unlockStore() { g.writing <- struct{}{} }

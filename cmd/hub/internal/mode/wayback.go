// SPDX-License-Identifier: Apache-2.0

package mode

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// WayBack releases the Lease of leader mode from an installation whose replicas have all ended.
type WayBack struct {
	options Options
	decider decider
	store   *store
	running func(context.Context) ([]string, error)
	waiting atomic.Pointer[string] // what it waits for
}

// NewWayBack sends no request. running reads which replicas may be at work, and ends those with expired Leases.
func NewWayBack(o Options, running func(context.Context) ([]string, error)) (*WayBack, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	w := &WayBack{options: o, decider: o.decider(), store: s, running: running}
	w.note("")
	return w, nil
}

// Run releases the Lease whenever the installation has it without running replicas, until ctx ends. Call it once.
func (w *WayBack) Run(ctx context.Context) {
	defer w.store.close()
	for ctx.Err() == nil {
		again, err := w.try(ctx)
		if err != nil && ctx.Err() == nil && !isConflict(err) {
			w.fail(err)
		}
		if !again {
			pause(ctx, w.options.Every)
		}
	}
}

// fail logs the first of several failures in a row.
func (w *WayBack) fail(err error) {
	if before := w.waiting.Swap(new(unknown)); *before != unknown {
		w.options.Log.Error(err, "Failed to find out whether replicas in Sharded mode run, or to release their Lease of leader mode; the hub "+
			"stands by and tries again. It needs the permissions that hub rbac prints with --replicas-mode Sharded")
	}
}

const unknown = "cannot find out whether replicas in Sharded mode run, see the log of the hub"

// Waiting says what this hub waits for before it is elected, or "".
func (w *WayBack) Waiting() string { return *w.waiting.Load() }

// try reports whether the next step is due at once.
func (w *WayBack) try(ctx context.Context) (again bool, err error) {
	found, err := w.store.read(ctx)
	if err != nil {
		return false, err
	}
	l := decode(found)
	if l.holder != w.decider.me {
		w.note("")
		return false, nil
	}
	running, err := w.running(ctx)
	if err != nil {
		return false, err
	}
	switch w.decider.forWayBack(l, len(running) > 0) {
	case stepAnnounce:
		w.options.Log.Info("All replicas in Sharded mode have ended; announcing the way back to leader mode", "lease", w.store.name())
		err := w.store.write(ctx, w.options.announced(found))
		return err == nil || isConflict(err), err
	case stepRelease:
		return false, w.release(ctx, found)
	default:
		w.note(fmt.Sprintf("waits for the replicas in Sharded mode, which hold the Lease %s, until none of these runs: %s; "+
			"scale them down, or start this hub with --replicas-mode=Sharded", w.store.name(), strings.Join(running, ", ")))
	}
	return false, nil
}

func (w *WayBack) release(ctx context.Context, found *coordinationv1.Lease) error {
	if err := w.store.write(ctx, w.options.released(found)); err != nil {
		return err
	}
	w.note("")
	w.options.Log.Info("Released the Lease of leader mode from Sharded mode", "lease", w.store.name())
	return nil
}

func (w *WayBack) note(what string) {
	if before := w.waiting.Swap(&what); what != "" && *before != what {
		w.options.Log.Info("Standing by", "reason", "this hub "+what)
	}
}

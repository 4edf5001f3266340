// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

// beginAssignment writes a changed assignment. Two assigners do no harm: it is a wish. It needs l.mu.
func (l *life) beginAssignment(ctx context.Context, now shards.Instant) {
	if !l.isAssigner(now) || l.pinned.IsZero() {
		return
	}
	var candidates []shards.Candidate
	for _, name := range l.machine.Assignable(now) {
		lease := l.view.leases[name]
		if name == l.me {
			lease = l.view.own
		}
		candidates = append(candidates, shards.Candidate{Name: name, Labels: labelsOf(lease), Since: lease.CreationTimestamp.Time})
	}
	before := l.view.assignment
	next := assignment{
		names: shards.Assign(l.machine.Current(now), candidates, l.pins, l.options.Active), assigner: l.me, version: before.version, drained: before.drained,
	}
	if before.assigner == next.assigner && slices.Equal(before.names, next.names) {
		return
	}
	l.begin(ctx, assignmentName, func(ctx context.Context) error { return l.assign(ctx, next) })
}

const pinsEvery = 2 * time.Second // pinsEvery is between reads of the pins, which a hub reads from its cache.

func (l *life) readPins() {
	l.mu.Lock()
	isDue := time.Since(l.pinned) >= pinsEvery && l.isAssigner(present())
	l.mu.Unlock()
	if !isDue {
		return
	}
	pins := l.options.Pins()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pins, l.pinned = pins, time.Now()
}

// isAssigner: this replica has read everything, and is the assigner, or the assigner is not live, or stands by while this replica is
// active: the assigner writes to the management cluster, too. It needs l.mu.
func (l *life) isAssigner(now shards.Instant) bool {
	if !l.view.hasLeases || !l.view.hasWishes {
		return false
	}
	live := l.machine.Live(now)
	assigner := l.view.assignment.assigner
	return slices.Contains(live, l.me) && (assigner == l.me || !slices.Contains(live, assigner) ||
		!l.machine.IsHolder(assigner) && l.machine.IsHolder(l.me))
}

func (l *life) assign(ctx context.Context, next assignment) error {
	written, err := l.store.others.putMap(ctx, encodeAssignment(next), next.version)
	if errors.Is(err, errConflict) {
		return errNotYet // The watch delivers the change.
	}
	if err != nil {
		return err
	}
	l.seeAssignment(written)
	return nil
}

// beginCleanup removes Leases of incarnations that ended a while ago and are in no record. It needs l.mu.
func (l *life) beginCleanup(ctx context.Context, now shards.Instant) {
	if !l.isAssigner(now) {
		return
	}
	for name, lease := range l.view.leases {
		if l.machine.UnchangedFor(name, now) < max(l.options.ForgetAfter, 2*l.options.Timing.Duration) ||
			l.machine.IsNeeded(func(of string) bool { return of == name }) {
			continue
		}
		pod := shards.PodOf(name)
		isOver := !l.machine.IsNeeded(func(of string) bool { return shards.PodOf(of) == pod })
		l.begin(ctx, name, func(ctx context.Context) error {
			if isOver {
				if err := l.options.Forget(ctx, pod); err != nil {
					return err
				}
			}
			err := l.store.others.removeLease(ctx, name, lease.ResourceVersion)
			if errors.Is(err, errConflict) {
				return errNotYet // The watch delivers the change.
			}
			return err
		})
	}
}

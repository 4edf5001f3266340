// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

const jitter = 0.1 // jitter, as a part of a retry, keeps replicas that began together apart.

// keepLease alone reads and writes the Lease, until it is lost, so that results cannot overtake each other.
func (l *life) keepLease(ctx context.Context) {
	for mustRead := false; ctx.Err() == nil; {
		began := time.Now()
		next, err := l.renew(ctx, mustRead)
		if mustRead = next; err != nil && ctx.Err() == nil {
			l.log.Error(err, "Failed to renew the Lease; the gate closes when the last renewal is too old",
				"deadline", l.options.Timing.Deadline.String())
		}
		if l.noteLease() {
			return
		}
		wait := time.Duration((1 + jitter*(2*rand.Float64()-1)) * float64(l.options.Timing.Retry))
		l.awaitRenewal(ctx, wait-time.Since(began))
	}
}

// noteLease reports whether the Lease is lost.
func (l *life) noteLease() bool {
	defer signal(l.kicked)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.machine.Lost() {
		return false
	}
	l.log.Info("The Lease has ended; the apps of all shards end")
	return true
}

func (l *life) awaitRenewal(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-l.hurried:
	case <-ctx.Done():
	}
}

// renew takes the step that is due. After each result but a successful renewal the Lease must be read first.
func (l *life) renew(ctx context.Context, mustRead bool) (readNext bool, err error) {
	if mustRead {
		if err := l.readOwn(ctx); err != nil {
			return true, err
		}
	}
	aliveErr := l.options.Alive()
	began := present()
	l.mu.Lock()
	action, due := l.machine.DecideLease(began, aliveErr == nil)
	l.mu.Unlock()
	if !due {
		if aliveErr != nil {
			aliveErr = fmt.Errorf("the replica makes no progress: %w", aliveErr)
		}
		return true, aliveErr
	}
	written, err := l.writeOwn(ctx, action.Lease)
	if errors.Is(err, errConflict) {
		signal(l.hurried) // Read now: the incarnation may have ended.
		return true, nil
	}
	if err != nil {
		return true, err
	}
	return false, l.renewedOwn(action.Kind, written, began)
}

func (l *life) readOwn(ctx context.Context) error {
	lease, err := l.store.renewals.getLease(ctx, l.me)
	if err != nil {
		return err
	}
	decoded, err := decodeLease(lease)
	if err != nil { // An administrator has changed it: it is no longer the proof of this incarnation.
		decoded = shards.Lease{Version: lease.ResourceVersion}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.view.own = lease
	l.machine.SeeOwn(decoded, present())
	return nil
}

// Only a claim creates the Lease.
func (l *life) writeOwn(ctx context.Context, next shards.Lease) (*coordinationv1.Lease, error) {
	l.mu.RLock()
	before, held := l.view.own, len(l.machine.Held())
	l.mu.RUnlock()
	after := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: l.me}}
	if before != nil {
		after = before.DeepCopy()
	}
	setLease(after, next)
	describe(after, &l.options, held)
	if before == nil {
		return l.store.renewals.createLease(ctx, after)
	}
	return l.store.renewals.swapLease(ctx, before, after)
}

func (l *life) renewedOwn(kind shards.ActionKind, written *coordinationv1.Lease, began shards.Instant) error {
	decoded, err := decodeLease(written)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if kind == shards.GiveBack {
		l.machine.GaveBack()
		return nil
	}
	l.machine.Renewed(decoded, began)
	l.view.own = written
	if l.renewed, l.began = time.Now(), began.Monotonic; !l.claimed {
		l.claimed = true
		l.log.Info("Claimed the Lease")
	}
	return nil
}

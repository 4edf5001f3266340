// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"errors"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

// beginAction is for records and for Leases of others. Those on apps are in beginCall. It needs l.mu.
func (l *life) beginAction(ctx context.Context, a shards.Action) {
	lease, record := l.view.leases[a.Name], l.view.records[a.Shard]
	switch a.Kind {
	case shards.Fence:
		l.begin(ctx, a.Name, func(ctx context.Context) error { return l.fence(ctx, lease, a.Lease) })
	case shards.Look:
		l.begin(ctx, a.Name, func(ctx context.Context) error {
			_, err := l.verify(ctx, a.Verify)
			return err
		})
	case shards.Take:
		l.begin(ctx, recordName(a.Shard), func(ctx context.Context) error { return l.take(ctx, record, a) })
	case shards.Repair:
		l.begin(ctx, recordName(a.Shard), func(ctx context.Context) error { return ignoreConflict(l.repair(ctx, a)) })
	case shards.Announce, shards.Release:
		l.begin(ctx, recordName(a.Shard), func(ctx context.Context) error { return l.swapRecord(ctx, record, a) })
	default: // WarmUp, Cool and Drain.
	}
}

// fence overwrites a Lease that is unchanged for the duration.
func (l *life) fence(ctx context.Context, before *coordinationv1.Lease, to shards.Lease) error {
	l.log.Info("Ending the incarnation of a replica whose Lease has expired", "other", before.Name)
	after := before.DeepCopy()
	setLease(after, to)
	lease, err := l.store.others.swapLease(ctx, before, after)
	if errors.Is(err, errConflict) {
		lease, err = l.store.others.getLease(ctx, before.Name)
	}
	if err != nil {
		return err
	}
	l.seeLease(before.Name, lease)
	return nil
}

// take reads the holder's Lease after the record, and writes the record only if it is unchanged.
func (l *life) take(ctx context.Context, before *coordinationv1.Lease, a shards.Action) error {
	if a.Verify != "" {
		permitted, err := l.verify(ctx, a.Verify)
		if err != nil {
			return err
		}
		if !permitted {
			return errNotYet
		}
	}
	if a.Record.Version == "" {
		return l.createAgain(ctx, a)
	}
	return l.swapRecord(ctx, before, a)
}

// createAgain takes a shard whose record was deleted.
func (l *life) createAgain(ctx context.Context, a shards.Action) error {
	l.log.Info("The record of a shard was deleted, and its holder has ended; it is created again", "shard", a.Shard, "epoch", a.Record.Epoch)
	made, err := l.store.others.createLease(ctx, newRecord(a.Shard, l.options.Count, a.Record))
	if errors.Is(err, errConflict) {
		return errNotYet // The watch delivers it.
	}
	if err != nil {
		return err
	}
	l.see(made)
	return nil
}

// verify reports whether a holder's shards may be taken. A Lease of that name of something else counts as missing.
func (l *life) verify(ctx context.Context, holder string) (permitted bool, err error) {
	lease, err := l.store.others.getLease(ctx, holder)
	if err != nil {
		return false, err
	}
	if lease != nil && lease.Labels[label] != labelReplica {
		lease = nil
	}
	decoded, err := decodeLease(lease)
	if err != nil {
		return false, err
	}
	l.seeLease(holder, lease)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.machine.MayTake(holder, decoded, present()), nil
}

// swapRecord reads the record after a conflict. An object that is not the record it should be is awaited.
func (l *life) swapRecord(ctx context.Context, before *coordinationv1.Lease, a shards.Action) error {
	after := before.DeepCopy()
	setRecord(after, l.options.Count, a.Record)
	lease, err := l.store.others.swapLease(ctx, before, after)
	isConflict := errors.Is(err, errConflict)
	if isConflict {
		lease, err = l.store.others.getLease(ctx, before.Name)
	}
	if err != nil {
		return err
	}
	if lease == nil {
		return errors.New("the record of a shard has been deleted, and its holder has not written it again: " +
			"stop all replicas and delete the ConfigMap " + installationName + " to create the records again")
	}
	l.see(lease)
	l.mu.RLock()
	defer l.mu.RUnlock()
	if isConflict && l.machine.Record(a.Shard).Version == a.Record.Version {
		return errNotYet
	}
	return nil
}

// repair writes the record of a held shard. A write that arrives after the loss of the Lease is repaired by the next holder.
func (l *life) repair(ctx context.Context, a shards.Action) error {
	name, count := recordName(a.Shard), l.options.Count
	found, err := l.store.others.getLease(ctx, name)
	if err != nil {
		return err
	}
	l.log.Info("The record of a shard was deleted, changed or set back; its holder writes it again", "object", name, "epoch", a.Record.Epoch)
	if found == nil {
		found, err = l.store.others.createLease(ctx, newRecord(a.Shard, count, a.Record))
	} else if _, r, broken := decodeRecord(found, count); broken != nil || r.Epoch < a.Record.Epoch || r.Epoch == a.Record.Epoch && r.Holder != a.Record.Holder {
		whole := found.DeepCopy()
		setRecord(whole, count, a.Record)
		found, err = l.store.others.swapLease(ctx, found, whole)
	}
	if err != nil {
		return err
	}
	l.see(found)
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

// ErrCount says that the installation has another number of shards than this replica. Waiting does not help.
var ErrCount = errors.New("the installation has another number of shards")

// ErrProtocol says that the objects are of another version of the protocol. Waiting does not help.
var ErrProtocol = errors.New("the installation has another version of the protocol")

// install checks the installation and its number of shards, or creates it. Failed requests are repeated until ctx ends.
func (r *Replica) install(ctx context.Context) error {
	for {
		done, err := r.tryInstall(ctx)
		switch {
		case done, errors.Is(err, ErrCount), errors.Is(err, ErrProtocol), errors.Is(err, errForeign):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			r.options.Log.Error(err, "Failed to read or create the installation; the replica tries again")
			Pause(ctx, r.options.Timing.Retry)
		}
	}
}

// tryInstall reports whether its step was the last.
func (r *Replica) tryInstall(ctx context.Context) (done bool, err error) {
	found, err := r.store.others.getMap(ctx, installationName)
	if err != nil {
		return false, err
	}
	if found == nil {
		_, err = r.store.others.putMap(ctx, r.installation(false), "")
		return false, ignoreConflict(err)
	}
	if err := r.check(found); err != nil {
		return false, err
	}
	if found.Data[keyComplete] == isSet {
		return true, nil
	}
	if err := r.createRecords(ctx); err != nil {
		return false, err
	}
	_, err = r.store.others.putMap(ctx, r.installation(true), found.ResourceVersion)
	return false, ignoreConflict(err)
}

func (r *Replica) installation(complete bool) *corev1.ConfigMap {
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: installationName, Labels: map[string]string{label: labelInstallation}},
		Data:       map[string]string{keyCount: strconv.Itoa(r.options.Count), keyProtocol: protocol},
	}
	if complete {
		m.Data[keyComplete] = isSet
	}
	return m
}

func (r *Replica) check(found *corev1.ConfigMap) error {
	count := found.Data[keyCount]
	switch {
	case found.Labels[label] != labelInstallation:
		return fmt.Errorf("the ConfigMap %s: %w", found.Name, errForeign)
	case found.Data[keyProtocol] != protocol:
		return fmt.Errorf("%w: the ConfigMap %s/%s has %q, this hub has %q; run a hub of the version that the other replicas have",
			ErrProtocol, r.options.Namespace, found.Name, found.Data[keyProtocol], protocol)
	case count != strconv.Itoa(r.options.Count):
		return fmt.Errorf("%w: the ConfigMap %s/%s has %s, this replica has %d; start it with %s shards, because the number never changes",
			ErrCount, r.options.Namespace, found.Name, count, r.options.Count, count)
	}
	return nil
}

// createRecords is called only before the installation is complete.
func (r *Replica) createRecords(ctx context.Context) error {
	creating, ctx := errgroup.WithContext(ctx)
	creating.SetLimit(atOnce)
	for shard := range r.options.Count + 1 {
		creating.Go(func() error { return r.createRecord(ctx, shard) })
	}
	return creating.Wait()
}

func (r *Replica) createRecord(ctx context.Context, shard int) error {
	_, err := r.store.others.createLease(ctx, newRecord(shard, r.options.Count, shards.Record{}))
	if !errors.Is(err, errConflict) {
		return err
	}
	found, err := r.store.others.getLease(ctx, recordName(shard))
	if err != nil {
		return err
	}
	if found == nil {
		return fmt.Errorf("the Lease %s exists and is missing: it is being deleted", recordName(shard))
	}
	_, _, err = decodeRecord(found, r.options.Count)
	return err
}

func ignoreConflict(err error) error {
	if errors.Is(err, errConflict) {
		return nil
	}
	return err
}

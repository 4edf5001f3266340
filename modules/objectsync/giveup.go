// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// liveness remembers for a moment that the rule is as the entry has it.
type liveness struct {
	reads singleflight.Group
	at    atomic.Int64 // in Unix nanoseconds
}

const liveFor = 2 * time.Second

var errEdited = errors.New("the rule has changed")

// giveUp is asked before a copy is deleted because of the rule, and not because of its original.
func (e *entry) giveUp(ctx context.Context) (context.Context, time.Duration, error) {
	if wait := e.engine.shared.periods.settled - time.Since(e.began); wait > 0 || !e.isSynced() { // Half of the copies are half of all.
		return ctx, max(wait, time.Second), nil
	}
	if err := e.isCurrent(ctx); err != nil {
		return ctx, 0, err
	}
	if e.allowed.Load() == e.Generation {
		ctx = deletes.OnPurpose(ctx, deletes.Confirmed(fmt.Sprintf("%s %s: %d", hubv1.AnnotationAllowHeld, e.Name, e.Generation)))
	}
	return ctx, 0, nil
}

// isCurrent reads the rule from the API server, for all that ask at the same time.
func (e *entry) isCurrent(ctx context.Context) error {
	if time.Since(time.Unix(0, e.live.at.Load())) < liveFor {
		return nil
	}
	_, err, _ := e.live.reads.Do("", func() (any, error) {
		now := &hubv1.SyncRule{}
		err := e.params.HubClient.Get(ctx, types.NamespacedName{Name: e.Name}, now)
		switch {
		case apierrors.IsNotFound(err):
			return nil, fmt.Errorf("give up copies of rule %s: %w", e.Name, errEdited)
		case err != nil:
			return nil, fmt.Errorf("read the rule %s: %w", e.Name, err)
		case now.UID != e.UID, now.Generation != e.Generation, !now.DeletionTimestamp.IsZero(),
			e.SelectsCluster(e.params.Labels()) == e.drains:
			return nil, fmt.Errorf("give up copies of rule %s: %w", e.Name, errEdited)
		}
		e.live.at.Store(time.Now().UnixNano())
		return nil, nil //nolint:nilnil // There is nothing to return.
	})
	return err
}

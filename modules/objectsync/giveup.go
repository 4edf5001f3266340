// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// liveFor is how long a rule counts as it was read.
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

// isCurrent reads the rule from the API server.
func (e *entry) isCurrent(ctx context.Context) error {
	if time.Since(time.Unix(0, e.live.Load())) < liveFor {
		return nil
	}
	now := &hubv1.SyncRule{}
	err := e.params.HubClient.Get(ctx, types.NamespacedName{Name: e.Name}, now)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("read the rule %s: %w", e.Name, err)
	case err != nil, now.UID != e.UID, now.Generation != e.Generation, !now.DeletionTimestamp.IsZero(),
		e.SelectsCluster(e.params.Labels()) == e.drains:
		return fmt.Errorf("give up copies of rule %s: %w", e.Name, errEdited)
	}
	e.live.Store(time.Now().UnixNano())
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package hubwatch

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Tombstone is the last state of an object that has left a subscription; of a Secret what identifies it. All apps share
// it.
type Tombstone struct {
	Object client.Object
	// Seen: a watch has reported the delete, alone or with the definition of the kind, or the loss of the selected
	// labels. False for an object that a list lacks, and for one with another key.
	Seen bool
}

// Limits of one subscription. A module whose tombstone is lost deletes without evidence, within the limits of
// undeclared deletes.
const (
	maxGraves = 10_000
	gravesFor = time.Hour
)

type graves struct {
	all   map[client.ObjectKey]grave
	order []burial // the oldest first, with burials that were undone
}

type grave struct {
	Tombstone
	at time.Time
}

type burial struct {
	key client.ObjectKey
	at  time.Time
}

func (g *graves) bury(key client.ObjectKey, t Tombstone, now time.Time) {
	if g.all == nil {
		g.all = map[client.ObjectKey]grave{}
	}
	g.all[key] = grave{t, now}
	g.order = append(g.order, burial{key, now})
	g.purge(now)
}

func (g *graves) purge(now time.Time) {
	for len(g.order) > 0 && (len(g.order) > maxGraves || now.Sub(g.order[0].at) > gravesFor) {
		if first := g.order[0]; g.all[first.key].at.Equal(first.at) {
			delete(g.all, first.key)
		}
		g.order = g.order[1:]
	}
}

func (g *graves) open(key client.ObjectKey) { delete(g.all, key) }

func (g *graves) find(key client.ObjectKey, now time.Time) (Tombstone, bool) {
	g.purge(now)
	one, ok := g.all[key]
	return one.Tombstone, ok
}

// purgeEvery is for places where nothing is deleted or looked up.
const purgeEvery = 10 * time.Minute

func (e *entry) purge(context.Context) {
	e.mu.RLock()
	all := e.subscriptions()
	e.mu.RUnlock()
	now := time.Now()
	for _, s := range all {
		s.mu.Lock()
		s.graves.purge(now)
		s.mu.Unlock()
	}
}

// remains keeps all of an object, but of a Secret only what identifies it. Its data may be in an annotation, too.
func (e *entry) remains(last client.Object) client.Object {
	if last == nil || e.of.Kind.GroupKind() != (schema.GroupKind{Kind: "Secret"}) {
		return last
	}
	kept := e.of.Object.DeepCopyObject().(client.Object) // an empty one
	kept.GetObjectKind().SetGroupVersionKind(e.of.Kind)
	kept.SetNamespace(last.GetNamespace())
	kept.SetName(last.GetName())
	kept.SetUID(last.GetUID())
	kept.SetResourceVersion(last.GetResourceVersion())
	kept.SetCreationTimestamp(last.GetCreationTimestamp())
	kept.SetDeletionTimestamp(last.GetDeletionTimestamp())
	kept.SetLabels(maps.Clone(last.GetLabels()))
	kept.SetOwnerReferences(last.GetOwnerReferences())
	return kept
}

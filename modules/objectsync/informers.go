// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// need is an informer of the remote.
type need struct {
	kind     hubv1.SyncKind
	metadata bool
}

// needs are the informers of the remote that the entry uses.
func (e *entry) needs() []need {
	all := []need{{kind: e.Kind}}
	if e.From == hubv1.SyncFromRemote && e.NamespaceLabels() != nil {
		all = append(all, need{hubv1.SyncKind{APIVersion: "v1", Kind: "Namespace"}, true})
	}
	return all
}

// tidy ends informers of the remote that no rule needs any more, so that a permission that is taken away is nobody's problem.
func (e *engine) tidy(ctx context.Context, now time.Time) {
	var drained []string
	e.mu.Lock()
	for name, one := range e.entries {
		if one.drains && one.isDrained() {
			drained = append(drained, name)
		}
	}
	e.mu.Unlock()
	for _, name := range drained {
		e.again(name)
	}
	e.endUnneeded(ctx, now)
}

// release ends the informers of an entry now that no other entry needs: the API server refuses them.
func (e *engine) release(of *entry) {
	e.mu.Lock()
	for _, n := range of.needs() {
		if _, used := e.used[n]; used {
			e.used[n] = time.Time{}
		}
	}
	e.mu.Unlock()
	e.endUnneeded(e.ctx, time.Now())
}

func (e *engine) endUnneeded(ctx context.Context, now time.Time) {
	for _, n := range e.unneeded(now) {
		e.removeInformer(ctx, n)
	}
}

// unneeded forgets the informers that it returns.
func (e *engine) unneeded(now time.Time) (ends []need) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.entries {
		for _, n := range one.needs() {
			if one.idle == nil {
				e.used[n] = now
			}
		}
	}
	for n, last := range e.used {
		if now.Sub(last) >= unneededFor {
			ends = append(ends, n)
			delete(e.used, n)
		}
	}
	return ends
}

func (e *engine) removeInformer(ctx context.Context, n need) {
	var of client.Object = emptyOf(schema.FromAPIVersionAndKind(n.kind.APIVersion, n.kind.Kind))
	if n.metadata {
		of = namespaceMetadata()
	}
	if err := e.params.Cache.RemoveInformer(ctx, of); err != nil && ctx.Err() == nil {
		e.params.Logger.Error(err, "Failed to end an informer that no rule needs", "kind", n.kind.Kind)
	}
}

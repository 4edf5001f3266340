// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/guard/lock"
	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
)

type statusStore[O client.Object] struct {
	*Host[O]
	name client.ObjectKey
	kind string // the condition type
}

func (p statusStore[O]) view(_ context.Context, obj O) (entry, error) {
	e := entry{lock: lock.State{Type: p.kind}}
	for _, l := range *p.options.Locks(obj) {
		if l.Type == p.kind {
			l.DeepCopyInto(&e.lock)
		}
	}
	if found := meta.FindStatusCondition(*p.options.Conditions(obj), p.kind); found != nil {
		e.condition = *found
	}
	return e, nil
}

func (p statusStore[O]) read(ctx context.Context) (snapshot[O], error) {
	s := snapshot[O]{object: object.New[O]()}
	if err := p.live.Get(ctx, p.name, s.object); err != nil {
		return s, err
	}
	var err error
	s.entry, err = p.view(ctx, s.object)
	return s, err
}

func (p statusStore[O]) write(ctx context.Context, s snapshot[O]) (O, error) {
	return p.apply(ctx, s.object, p.kind, map[string]any{
		"locks": []any{s.lock}, "conditions": []any{s.condition},
	})
}

func (statusStore[O]) discard(context.Context, func(lock.State) error) (func(context.Context) error, error) {
	return func(context.Context) error { return nil }, nil
}

// apply is object.ApplyStatus with the field manager of the condition type.
func (h *Host[O]) apply(ctx context.Context, obj O, kind string, status map[string]any) (O, error) {
	applied, err := object.ApplyStatus(ctx, client.WithFieldOwner(h.client, h.options.identity()+"/"+fit(kind, maxManager)), obj, status)
	if err != nil {
		return obj, err
	}
	fresh := object.New[O]()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, fresh); err != nil {
		return obj, fmt.Errorf("convert %s: %w", h.gvk.Kind, err)
	}
	return fresh, nil
}

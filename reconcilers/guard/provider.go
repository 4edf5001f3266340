// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Provider makes one condition of one object true, such as a tunnel at a certain company. There is a new one for each
// reconcile. All its changes must go through its Controller.
//
// A nil result without an error means settled: the next condition follows. Any other result ends the reconcile and is
// returned. A provider that has settled a step and returns an empty result is called again.
type Provider interface {
	Reconcile(ctx context.Context) (*reconcile.Result, error)
	// Terminate reverses Reconcile while the object is being deleted, also if Reconcile has failed or never run. When
	// all conditions have settled, the finalizer is removed.
	Terminate(ctx context.Context) (*reconcile.Result, error)
}

// Factory makes the providers of one kind for a condition type. Several may have the same type if one of them handles
// an object.
type Factory[O client.Object] struct {
	// Name is for errors and events.
	Name          string
	ConditionType string
	// Handles must not change its result while the object exists. Default: every object.
	Handles func(obj O) bool
	// New returns the provider of the object that the controller is for.
	New func(ctx context.Context, c *Controller[O]) (Provider, error)
}

func checked[O client.Object](factories []Factory[O], order []string) ([]Factory[O], error) {
	if len(factories) == 0 {
		return nil, fmt.Errorf("%w: there is no factory", ErrInvalidConfig)
	}
	place := map[string]int{}
	for i, t := range order {
		place[t] = i - len(order)
	}
	names := map[string]bool{}
	for _, f := range factories {
		if f.Name == "" || f.ConditionType == "" || f.New == nil || names[f.Name] {
			return nil, fmt.Errorf("%w: factory %q of %q: a unique name, a condition type and New are needed",
				ErrInvalidConfig, f.Name, f.ConditionType)
		}
		if err := checkType(f.ConditionType); err != nil {
			return nil, fmt.Errorf("factory %s: %w", f.Name, err)
		}
		names[f.Name] = true
	}
	sorted := slices.Clone(factories)
	slices.SortStableFunc(sorted, func(a, b Factory[O]) int {
		return cmp.Compare(place[a.ConditionType], place[b.ConditionType])
	})
	return sorted, nil
}

func chosen[O client.Object](factories []Factory[O], obj O) ([]Factory[O], error) {
	var handling []Factory[O]
	for _, f := range factories {
		if f.Handles != nil && !f.Handles(obj) {
			continue
		}
		for _, other := range handling {
			if other.ConditionType == f.ConditionType {
				return nil, reconcile.TerminalError(fmt.Errorf("%w: %s and %s for condition %s",
					errAmbiguousProvider, other.Name, f.Name, f.ConditionType))
			}
		}
		handling = append(handling, f)
	}
	return handling, nil
}

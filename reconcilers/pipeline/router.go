// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Set is a list of resources for the objects that have its Labels and that Handles accepts; one of both is needed.
type Set[O client.Object] struct {
	// Name is for errors and logs. Required, and unique in a Router.
	Name string
	// Labels must all be on the object. NewRouter finds overlaps of labels; an overlap of Handles shows with the
	// first object. Default: any object.
	Labels map[string]string
	// Handles is called for every object of the kind. It must depend on the object only, and not change it. Default:
	// every object with the Labels.
	Handles func(obj O) bool
	// Init is called first in each pass and returns the context for the resources, derived from ctx, such as with a
	// client for the object's tenant. An error ends the pass. It may use the Flow, except for CancelResource.
	// Default: ctx.
	Init func(ctx context.Context, obj O) (context.Context, error)
	// Resources run in this order: at least one, with unique names.
	Resources []Resource[O]
}

// Router finds the one set that an object belongs to.
type Router[O client.Object] struct {
	sets []Set[O]
}

// NewRouter fails with ErrInvalidConfig, or with ErrAmbiguousResourceSet if two sets without Handles can have one
// object.
func NewRouter[O client.Object](sets ...Set[O]) (*Router[O], error) {
	if len(sets) == 0 {
		return nil, fmt.Errorf("%w: a router needs a set", ErrInvalidConfig)
	}
	r := &Router[O]{sets: slices.Clone(sets)}
	for i := range r.sets {
		set := &r.sets[i]
		if err := set.check(); err != nil {
			return nil, err
		}
		for _, other := range r.sets[:i] {
			if other.Name == set.Name {
				return nil, fmt.Errorf("%w: there are two sets %q", ErrInvalidConfig, set.Name)
			}
			if other.overlaps(set) {
				return nil, fmt.Errorf("%w: sets %q and %q have labels that one object can have, and no Handles",
					ErrAmbiguousResourceSet, other.Name, set.Name)
			}
		}
		set.Resources, set.Labels = slices.Clone(set.Resources), maps.Clone(set.Labels)
	}
	return r, nil
}

// Route returns the set of an object. The error is ErrNoResourceSet, or ErrExecutionFailed with
// ErrAmbiguousResourceSet, which names the sets.
func (r *Router[O]) Route(obj O) (*Set[O], error) {
	var found []*Set[O]
	for i := range r.sets {
		if r.sets[i].handles(obj) {
			found = append(found, &r.sets[i])
		}
	}
	switch len(found) {
	case 0:
		return nil, ErrNoResourceSet
	case 1:
		return found[0], nil
	}
	names := make([]string, len(found))
	for i, set := range found {
		names[i] = set.Name
	}
	return nil, fmt.Errorf("%w: %w: %s", ErrExecutionFailed, ErrAmbiguousResourceSet, strings.Join(names, ", "))
}

func (s *Set[O]) handles(obj O) bool {
	return labels.SelectorFromSet(s.Labels).Matches(labels.Set(obj.GetLabels())) && (s.Handles == nil || s.Handles(obj))
}

func (s *Set[O]) check() error {
	switch {
	case s.Name == "":
		return fmt.Errorf("%w: a set needs a name", ErrInvalidConfig)
	case s.Handles == nil && len(s.Labels) == 0:
		return fmt.Errorf("%w: set %q needs Handles or Labels", ErrInvalidConfig, s.Name)
	case len(s.Resources) == 0:
		return fmt.Errorf("%w: set %q needs a resource", ErrInvalidConfig, s.Name)
	}
	names := map[string]bool{}
	for i, r := range s.Resources {
		switch {
		case r == nil || r.Name() == "":
			return fmt.Errorf("%w: set %q: resource %d is nil or has no name", ErrInvalidConfig, s.Name, i)
		case names[r.Name()]:
			return fmt.Errorf("%w: set %q: there are two resources %q; give each a name of its own",
				ErrInvalidConfig, s.Name, r.Name())
		}
		names[r.Name()] = true
	}
	return nil
}

// overlaps reports whether there are objects that both certainly handle.
func (s *Set[O]) overlaps(other *Set[O]) bool {
	if s.Handles != nil || other.Handles != nil {
		return false // Functions cannot be compared.
	}
	return !labels.Conflicts(s.Labels, other.Labels)
}

// init checks that the returned context belongs to the same pass.
func (s *Set[O]) init(ctx context.Context, obj O) (context.Context, error) {
	if s.Init == nil {
		return ctx, nil
	}
	flow := FlowFrom(ctx)
	prepared, err := s.Init(ctx, obj)
	switch {
	case err != nil:
		return nil, fmt.Errorf("its Init: %w", err)
	case prepared == nil || FlowFrom(prepared) != flow:
		return nil, fmt.Errorf("%w: its Init must return a context derived from the context that it was given", ErrExecutionFailed)
	case flow.ResourceCanceled():
		return nil, fmt.Errorf("%w: its Init canceled a resource before any resource ran", ErrExecutionFailed)
	}
	return prepared, nil
}

// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry"
)

// FinalizerOf returns the finalizer that a pair with PairOptions.OneToOne keeps on its upstream objects.
func FinalizerOf(id Identity) string {
	if full, err := id.WithDefaults(); err == nil {
		id = full
	}
	return id.KeyPrefix + "/" + id.Tenant
}

func (s *Session[T]) hold(ctx context.Context) error {
	return s.setFinalizers(ctx, append(slices.Clone(s.up.GetFinalizers()), s.of.finalizer))
}

func (s *Session[T]) release(ctx context.Context) error {
	if err := s.confirmGone(ctx); err != nil {
		return err
	}
	without := slices.DeleteFunc(slices.Clone(s.up.GetFinalizers()), func(f string) bool { return f == s.of.finalizer })
	return client.IgnoreNotFound(s.setFinalizers(ctx, without))
}

// releaseUnseen removes the finalizer from an upstream object that the view does not have, as one without the labels
// of the selection. Its copy has gone.
func (s *Session[T]) releaseUnseen(ctx context.Context) error {
	r := s.of
	if !r.pair.options.OneToOne {
		return nil
	}
	found, state, err := s.liveUp(ctx)
	switch {
	case err != nil:
		return err
	case state == absent, !slices.Contains(found.GetFinalizers(), r.finalizer):
		return nil
	}
	if found, err = r.mutate(ctx, upstreamSide, verbGet, found); err != nil || s.isSelected(found) {
		return err
	}
	s.up = found
	return s.release(ctx)
}

func (s *Session[T]) setFinalizers(ctx context.Context, all []string) error {
	r := s.of
	if r.options.Observe {
		return nil
	}
	writer := object.Finalizers{Client: s.upstream.Client, Kind: r.kind, Owner: r.pair.fieldManager(directionUp)}
	written, err := writer.Set(ctx, s.up, all)
	r.pair.metrics.write(r.kind.Kind, directionUp, verbUpdate, err)
	if err != nil {
		return &writeError{fmt.Sprintf("change the finalizers of upstream %s %s", r.kind.Kind, s.key), err}
	}
	s.up.SetFinalizers(all)
	s.up.SetResourceVersion(written.GetResourceVersion())
	return nil
}

// Cleanup returns the step that removes the finalizer of a OneToOne pair from the upstream objects in a remote when
// its Cluster is deleted. The copies stay.
func Cleanup[T client.Object](p registry.Remote, id Identity) registry.CleanupStep {
	return object.Release[T](p.Manager, "syncer-"+id.Tenant, FinalizerOf(id))
}

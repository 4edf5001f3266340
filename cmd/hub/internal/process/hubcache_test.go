// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// The hub's cache waits as that of controller-runtime does: not before it runs, and then until an informer has the objects.
func TestHubCache(t *testing.T) {
	t.Parallel()
	inner, err := cache.New(fleettest.Cluster(t, "hub").Config(), cache.Options{})
	testkit.Must(t, err)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	c := &hubCache{Cache: inner, life: t.Context()}
	early, err := c.GetInformer(t.Context(), &corev1.ConfigMap{})
	testkit.Must(t, err)
	testkit.Equal(t, early.HasSynced(), false, "before the cache runs")
	testkit.Equal(t, c.WaitForCacheSync(over), false, "the cache does not run at the end of the caller")
	testkit.Equal(t, (&hubCache{Cache: inner, life: over}).WaitForCacheSync(t.Context()), true, "at the end of the hub")

	testkit.Background(t, c.Start)
	testkit.Equal(t, c.WaitForCacheSync(t.Context()), true, "the cache is synced")
	testkit.Equal(t, early.HasSynced(), true, "after WaitForCacheSync")
	late, err := c.GetInformer(t.Context(), &corev1.Node{})
	testkit.Must(t, err)
	testkit.Equal(t, late.HasSynced(), true, "of an informer that begins while the cache runs")
	if _, err := c.GetInformer(over, &corev1.Pod{}); !apierrors.IsTimeout(err) {
		t.Errorf("an informer for a caller that has ended: got %v, want a timeout", err)
	}
}

// A gateway that has no API server to ask says so at once: the caller logs it, and asks again in a while.
func TestHubCache_GatewayTimeout(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := (&hubCache{Cache: &gateway{giveUp: cancel}, life: ctx}).GetInformer(ctx, &corev1.ConfigMap{})
	if !apierrors.IsTimeout(err) || ctx.Err() != nil {
		t.Errorf("got %v after too many requests", err)
	}
}

type gateway struct {
	cache.Cache
	asked  int
	giveUp func()
}

func (g *gateway) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	if g.asked++; g.asked == 1000 {
		g.giveUp()
	}
	return nil, apierrors.NewTimeoutError("504 Gateway Timeout", 0)
}

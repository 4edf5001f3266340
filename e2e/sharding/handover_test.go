// SPDX-License-Identifier: Apache-2.0

package sharding_test

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

const (
	// slowLine, in bytes per second, takes minutes for the objects of a remote, and less than a second for a handshake.
	slowLine              = 16 << 10
	slowObjects, slowSize = 64, 64 << 10 // of the remote
)

// A replica that is started gets its shards although remotes over a slow line take minutes until their apps are built there: they
// start when it has the shards.
func TestSharding_HandOverBesideSlowRemotes(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub/internal/fleet TestFleet_Warm")
	t.Parallel()
	s := newStage(t, 12)
	s.reads = true
	s.fill()
	proxies := s.throughProxies()
	s.neverUnreachable()
	s.start("a")
	s.expectReady()
	for _, proxy := range proxies {
		must(t, proxy.Set(fault.Throttle(slowLine)))
	}
	s.start("b")
	eventually(t, func() error {
		all := s.runBy("b")
		isStarting := func(c hubv1.Cluster) bool {
			ready := meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionReady)
			return ready != nil && ready.Reason == hubv1.ReasonStarting
		}
		return errorUnless(slices.ContainsFunc(all, isStarting), "b runs %d Clusters, and the app of none of them is being built", len(all))
	})
	for _, proxy := range proxies {
		must(t, proxy.Set(fault.Pass()))
	}
	s.expectReady()
}

// neverUnreachable lets no number of failed probes make a remote unreachable: they wait behind the objects.
func (s *stage) neverUnreachable() {
	s.t.Helper()
	for _, name := range s.names {
		c := s.cluster(name)
		c.Spec.Probe.FailureThreshold = 100
		must(s.t, s.admin.Update(s.t.Context(), c))
	}
}

// randomText cannot be compressed, as an API server does with lists.
func randomText(size int) string {
	data := make([]byte, size/2)
	_, _ = rand.Read(data) // It never fails.
	return hex.EncodeToString(data)
}

// fill creates large objects in the remote.
func (s *stage) fill() {
	s.t.Helper()
	admin := fleettest.ClientFor(s.t, s.remotes[0].Config())
	var creating errgroup.Group
	creating.SetLimit(8)
	for i := range slowObjects {
		creating.Go(func() error {
			return admin.Create(s.t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprint("large-", i)},
				Data:       map[string]string{"text": randomText(slowSize)},
			})
		})
	}
	must(s.t, creating.Wait())
}

// SPDX-License-Identifier: Apache-2.0

package sharding_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// BenchmarkFirst shows the time from the start of a process until the app of its only Cluster writes: of a hub that is alone, and
// of a replica that finds no other, in turns; all but the first find an installation.
func BenchmarkFirst(b *testing.B) {
	const rounds = 15
	s := newStageOf(b, stageOptions{clusters: 1, servers: 1})
	s.active = 1
	mark := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "tick-" + s.names[0]}}
	remote := fleettest.Client(b, s.remotes[0])
	first := func(o settings) time.Duration {
		began := time.Now()
		r := s.startWith(o)
		defer r.leave()
		var wrote time.Time
		s.within(func() error {
			err := remote.Get(b.Context(), client.ObjectKeyFromObject(mark), mark)
			if err == nil {
				wrote, err = time.Parse(time.RFC3339Nano, mark.Data["at"])
			}
			return errorUnless(err == nil && wrote.After(began), "no write yet: %v", err)
		})
		return wrote.Sub(began)
	}
	for b.Loop() {
		var alone, replica []time.Duration
		for range rounds {
			alone = append(alone, first(settings{Name: "alone", Alone: true}))
			replica = append(replica, first(settings{Name: "replica", Active: 1}))
		}
		slices.Sort(alone)
		slices.Sort(replica)
		b.Logf("alone %s, a replica %s", alone, replica)
		b.ReportMetric(alone[rounds/2].Seconds(), "alone-s")
		b.ReportMetric(replica[rounds/2].Seconds(), "replica-s")
		b.ReportMetric(replica[rounds/2].Seconds()/alone[rounds/2].Seconds(), "replica/alone")
	}
}

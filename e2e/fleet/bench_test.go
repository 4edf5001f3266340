// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// BenchmarkFleet_Create reports the start time of clusters, one after the other and several at once, and the memory of
// an API server and of etcd: go test -run '^$' -bench . -benchtime 4x.
func BenchmarkFleet_Create(b *testing.B) {
	for _, together := range []int{1, 4} {
		b.Run(fmt.Sprintf("%d at once", together), func(b *testing.B) {
			f := fleettest.New(b, fleet.Options{})
			b.ResetTimer()
			for round := range b.N {
				var starting sync.WaitGroup
				for i := range together {
					starting.Go(func() {
						testkit.NoError(b, testkit.Err(f.Create(b.Context(), fmt.Sprintf("c%d-%d", round, i))))
					})
				}
				starting.Wait()
			}
			clusters := float64(b.N * together)
			b.ReportMetric(b.Elapsed().Seconds()/clusters, "s/cluster")
			reportMemory(b, f, clusters)
		})
	}
}

func reportMemory(b *testing.B, f *fleet.Fleet, clusters float64) {
	b.Helper()
	var servers float64
	for name, pid := range f.Processes() {
		if strings.HasSuffix(name, "kube-apiserver") {
			servers += residentMegabytes(pid)
		} else {
			b.ReportMetric(residentMegabytes(pid), "MB/etcd")
		}
	}
	b.ReportMetric(servers/clusters, "MB/apiserver")
}

// SPDX-License-Identifier: Apache-2.0

package objectsync_test

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/objectsync"
)

// BenchmarkLimit copies objects with a rule, in a hub, with several values of spec.client.qps; 0 is the default. CLUSTERFX_OBJECTS sets
// their number.
func BenchmarkLimit(b *testing.B) {
	objects, err := strconv.Atoi(cmp.Or(os.Getenv("CLUSTERFX_OBJECTS"), "5000"))
	testkit.Must(b, err)
	for _, qps := range []int32{50, 0, 1000, 10_000} {
		b.Run(fmt.Sprint("qps=", qps), func(b *testing.B) {
			for range b.N {
				hub := hubtest.New(b, hubtest.Modules(objectsync.Module, objectsync.RulesModule), remoteRules(b, rulesOf(b, limits)...))
				create(hub, rulesOf(b, limits))
				hub.Create(namespace("many", nil))
				fill(b, hub, objects)
				began := time.Now()
				a := hub.AddRemote("a", func(c *hubv1.Cluster) {
					c.Spec.Modules, c.Spec.Client.QPS, c.Spec.Client.Burst = []string{"sync"}, qps, 2*qps
				})
				a.Create(namespace("many", nil))
				a.Eventually(func() error {
					var all corev1.ConfigMapList
					err := a.Client().List(b.Context(), &all, client.InNamespace("many"), client.HasLabels{"sync.clusterfx.dev/managed-by"})
					return cmp.Or(err, unless(len(all.Items) == objects, len(all.Items)))
				})
				b.ReportMetric(float64(objects)/time.Since(began).Seconds(), "copies/s")
			}
		})
	}
}

const limits = `
many: {from: Hub, kind: {apiVersion: v1, kind: ConfigMap}, namespaces: {names: [many]}, to: {naming: Mirror}}
`

// fill creates originals of about 1 KB.
func fill(b *testing.B, hub *hubtest.Hub, objects int) {
	b.Helper()
	next := make(chan int)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range next {
				testkit.NoError(b, hub.Client().Create(b.Context(), configMap("many", fmt.Sprint("object-", i), nil)))
			}
		})
	}
	for i := range objects {
		next <- i
	}
	close(next)
	all.Wait()
}

// SPDX-License-Identifier: Apache-2.0

package objectsync_test

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
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
					c.Spec.Client.QPS, c.Spec.Client.Burst = qps, 2*qps
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

// BenchmarkRules prints what a rule costs in a remote, with CLUSTERFX_RULES of them, and how long one more takes until its first copy.
func BenchmarkRules(b *testing.B) {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("CLUSTERFX_RULES"), "200"))
	testkit.Must(b, err)
	rule := func(name string) *hubv1.SyncRule {
		one := rulesOf(b, limits)[0]
		one.Name, one.Spec.Objects.Names = name, []string{"object-0"}
		one.Spec.To.Namespace = "default"
		one.Spec.To.Naming = hubv1.SyncTranslated
		return one
	}
	for range b.N {
		hub := hubOf(b, "{}", hubtest.Remotes("b"), remoteRules(b, rulesOf(b, limits)...))
		hub.Create(namespace("many", nil))
		fill(b, hub, 1)
		remotes := []*hubtest.Remote{hub.Remote("a"), hub.Remote("b")}
		copies := func(want int) {
			for _, one := range remotes {
				counts(b, &one.Server, "default", want)
			}
		}
		hub.Create(rule("first"))
		copies(1)
		goroutines, bytes := used()
		for i := range n {
			hub.Create(rule(fmt.Sprint("rule-", i)))
		}
		copies(n + 1)
		after, more := used()
		began := time.Now()
		hub.Create(rule("last"))
		copies(n + 2)
		b.ReportMetric(time.Since(began).Seconds(), "s/new")
		b.ReportMetric(float64(after-goroutines)/float64(n*len(remotes)), "goroutines/rule+remote")
		b.ReportMetric((more-bytes)/float64(n*len(remotes)), "B/rule+remote")
	}
}

func used() (goroutines int, bytes float64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), float64(m.HeapAlloc + m.StackInuse)
}

const limits = `
many: {from: Hub, kind: {apiVersion: v1, kind: ConfigMap}, namespaces: {names: [many]}, to: {naming: Mirror}}
`

// fill creates originals of about 1 KB.
func fill(b testing.TB, hub *hubtest.Hub, objects int) {
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

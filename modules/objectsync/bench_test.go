// SPDX-License-Identifier: Apache-2.0

package objectsync_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
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

// BenchmarkRules prints what a rule costs in a remote, with CLUSTERFX_RULES of them in CLUSTERFX_REMOTES Clusters, and how long one more
// takes until its first copy, and until it has all. The Clusters share an API server, and each has a namespace there.
func BenchmarkRules(b *testing.B) {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("CLUSTERFX_RULES"), "200"))
	testkit.Must(b, err)
	remotes, err := strconv.Atoi(cmp.Or(os.Getenv("CLUSTERFX_REMOTES"), "2"))
	testkit.Must(b, err)
	const often = 50 * time.Millisecond
	rule := func(name string) *hubv1.SyncRule {
		one := rulesOf(b, limits)[0]
		one.Name, one.Spec.Objects.Names = name, []string{"object-0"}
		one.Spec.Clusters = &hubv1.LabelSelector{MatchLabels: map[string]hubv1.LabelValue{"bench": "yes"}}
		one.Spec.To = hubv1.SyncTarget{Naming: hubv1.SyncTranslated, Namespace: "copies-{{cluster}}"}
		return one
	}
	for range b.N {
		hub := crowd(b, remotes)
		copies := func(least int, every time.Duration) { // A list of thousands is work for the API server.
			err := wait.PollUntilContextTimeout(b.Context(), every, 10*time.Minute, true, func(ctx context.Context) (bool, error) {
				var all metav1.PartialObjectMetadataList
				all.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
				err := hub.Remote("a").Client().List(ctx, &all, client.HasLabels{managedBy})
				return len(all.Items) >= least, err
			})
			testkit.Must(b, err)
		}
		unruled, empty := used()
		hub.Create(rule("first"))
		copies(remotes, often)
		goroutines, bytes := used()
		began := time.Now()
		for i := range n {
			hub.Create(rule(fmt.Sprint("rule-", i)))
		}
		copies((n+1)*remotes, time.Second)
		b.ReportMetric(time.Since(began).Seconds(), "s/rules")
		after, more := used()
		began = time.Now()
		hub.Create(rule("last"))
		copies((n+1)*remotes+1, often)
		b.ReportMetric(time.Since(began).Seconds(), "s/first")
		copies((n+2)*remotes, often)
		b.ReportMetric(time.Since(began).Seconds(), "s/all")
		b.ReportMetric(float64(goroutines-unruled)/float64(remotes), "goroutines/remote")
		b.ReportMetric((bytes-empty)/float64(remotes), "B/remote")
		b.ReportMetric(float64(after-goroutines)/float64(n*remotes), "goroutines/rule+remote")
		b.ReportMetric((more-bytes)/float64(n*remotes), "B/rule+remote")
	}
}

// crowd returns a hub with many Clusters, which share an API server.
func crowd(b *testing.B, remotes int) *hubtest.Hub {
	b.Helper()
	hub := hubOf(b, "{}", remoteRules(b, rulesOf(b, limits)...), hubtest.Patience(10*time.Minute),
		hubtest.Duplicates())
	a := hub.Remote("a")
	for i := range remotes {
		name := fmt.Sprint("edge-", i)
		a.Create(namespace("copies-"+name, nil))
		hub.Create(&corev1.Secret{ObjectMeta: meta(hubv1.DefaultNamespace, name, nil), Data: map[string][]byte{"kubeconfig": a.Kubeconfig()}},
			&hubv1.Cluster{ObjectMeta: meta("", name, map[string]string{"bench": "yes"}), Spec: hubv1.ClusterSpec{
				KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: name}, Namespaces: []string{"copies-" + name},
			}})
	}
	hub.Eventually(func() error {
		var all hubv1.ClusterList
		err := hub.Client().List(b.Context(), &all, client.MatchingLabels{"bench": "yes"})
		ready := slices.DeleteFunc(all.Items, func(c hubv1.Cluster) bool {
			return !apimeta.IsStatusConditionTrue(c.Status.Conditions, hubv1.ConditionReady)
		})
		return cmp.Or(err, unless(len(ready) == remotes, len(ready)))
	})
	hub.Create(namespace("many", nil))
	fill(b, hub, 1)
	return hub
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

// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry/internal/compact"
)

// BenchmarkReads compares reads of packed objects with reads of decoded ones, in turns: medians of short rounds.
func BenchmarkReads(b *testing.B) {
	server := lists{}
	for i := range 100 {
		name, text := metav1.ObjectMeta{Namespace: "blue", Name: fmt.Sprintf("object-%d", i)}, fmt.Sprint(i)
		pod, configMap := fleettest.Pod(name, text), fleettest.ConfigMap(name, text)
		pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		configMap.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		server["pods"], server["configmaps"] = append(server["pods"], pod), append(server["configmaps"], configMap)
	}
	server["pods"][0].SetLabels(map[string]string{"one": ""})
	decoded, packed := server.newCache(b, nil), server.newCache(b, compact.NewTypes())
	key := client.ObjectKey{Namespace: "blue", Name: "object-0"}
	for name, read := range map[string]func(client.Reader) error{
		"pod/get":             func(r client.Reader) error { return r.Get(b.Context(), key, &corev1.Pod{}) },
		"pod/list=100":        func(r client.Reader) error { return r.List(b.Context(), &corev1.PodList{}) },
		"pod/labels=1-of-100": func(r client.Reader) error { return r.List(b.Context(), &corev1.PodList{}, client.HasLabels{"one"}) },
		"configmap/get":       func(r client.Reader) error { return r.Get(b.Context(), key, &corev1.ConfigMap{}) },
		"configmap/list=100":  func(r client.Reader) error { return r.List(b.Context(), &corev1.ConfigMapList{}) },
		"pod/get-without-copy": func(r client.Reader) error {
			return r.Get(b.Context(), key, &corev1.Pod{}, client.UnsafeDisableDeepCopy)
		},
		"pod/list-without-copy": func(r client.Reader) error {
			return r.List(b.Context(), &corev1.PodList{}, client.UnsafeDisableDeepCopy)
		},
	} {
		b.Run(name, func(b *testing.B) {
			var times [2][]float64
			for b.Loop() {
				for i, from := range []client.Reader{decoded, packed} {
					began := time.Now()
					if err := read(from); err != nil {
						b.Fatal(err)
					}
					times[i] = append(times[i], float64(time.Since(began).Nanoseconds())/1000)
				}
			}
			for i := range times {
				slices.Sort(times[i])
			}
			half := len(times[0]) / 2
			b.ReportMetric(times[0][half], "µs-decoded")
			b.ReportMetric(times[1][half], "µs-packed")
			b.ReportMetric(times[1][half]/times[0][half], "x")
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
)

// BenchmarkStock measures what counting adds to an object on its way into the cache.
func BenchmarkStock(b *testing.B) {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		b.Fatal(err)
	}
	env := &environment{scheme: s, figures: newFigures(prometheus.NewRegistry(), false), limits: Limits{}.withDefaults()}
	for name, make := range map[string]func(int) metav1.Object{
		"configmap":    func(i int) metav1.Object { return someConfigMap(i) },
		"pod":          func(i int) metav1.Object { return somePod(i) },
		"unstructured": func(i int) metav1.Object { return someUnstructured(i) },
	} {
		b.Run(name, func(b *testing.B) {
			e := &epoch{lifetime: lifetime{environment: env, ctx: b.Context(), tracker: newTracker(nil, func() {})}}
			budget := newBudget(e)
			obj := make(1)
			one := budget.newInformer(&toolscache.ListWatch{}, obj.(runtime.Object), 0, toolscache.Indexers{}).(*stock)
			obj.SetUID(types.UID("1"))
			b.ReportAllocs()
			for b.Loop() {
				one.begin(true)
				if _, err := one.take(obj); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

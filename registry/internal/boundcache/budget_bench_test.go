// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/clusterfx/clusterfx/registry/internal/meter"
)

// BenchmarkStock measures the cost of counting for an object on its way into the cache.
func BenchmarkStock(b *testing.B) {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		b.Fatal(err)
	}
	named := metav1.ObjectMeta{Name: "one", Namespace: "default", Labels: map[string]string{"app": "some-application"}}
	for name, object := range map[string]func() metav1.Object{
		"configmap": func() metav1.Object {
			return &corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"text": strings.Repeat("x", 2000)}}
		},
		"pod": func() metav1.Object {
			return &corev1.Pod{ObjectMeta: named, Spec: corev1.PodSpec{Containers: make([]corev1.Container, 2)}}
		},
		"unstructured": func() metav1.Object {
			u := &unstructured.Unstructured{}
			u.SetAPIVersion("v1")
			u.SetKind("ConfigMap")
			u.SetName(named.Name)
			return u
		},
	} {
		b.Run(name, func(b *testing.B) {
			budget := newBudget(someOptions(b.Context(), s, meter.NewLimiter(meter.NewSchemas(s), 0)))
			obj := object()
			one := newInformer(budget, obj.(runtime.Object))
			obj.SetUID(types.UID("1"))
			b.ReportAllocs()
			for b.Loop() {
				one.begin()
				if _, err := one.receive(obj); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

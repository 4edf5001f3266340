// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"flag"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

var objects = flag.String("objects", "configmaps", "what the benchmark of engaging watches: configmaps of 2 KB, or pods")

// benchKind is a kind of objects that a benchmark watches.
type benchKind struct {
	empty    client.Object
	informer func(informers.SharedInformerFactory) cache.SharedIndexInformer
	// make returns an object with a status. text is different in each remote, unless the bodies are equal.
	make func(meta metav1.ObjectMeta, text string) client.Object
}

func benchKindOf(b *testing.B) benchKind {
	b.Helper()
	switch *objects {
	case "configmaps":
		return benchKind{
			empty: &corev1.ConfigMap{},
			make:  func(meta metav1.ObjectMeta, text string) client.Object { return fleettest.ConfigMap(meta, text) },
			informer: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
				return f.Core().V1().ConfigMaps().Informer()
			},
		}
	case "pods":
		return benchKind{
			empty: &corev1.Pod{},
			make:  func(meta metav1.ObjectMeta, text string) client.Object { return fleettest.Pod(meta, text) },
			informer: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
				return f.Core().V1().Pods().Informer()
			},
		}
	}
	b.Fatalf("-objects=%s: want configmaps or pods", *objects)
	return benchKind{}
}

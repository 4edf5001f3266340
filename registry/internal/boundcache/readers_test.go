// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// A reader is new once, and kinds are distinct even if they share a Go type.
func TestReaders(t *testing.T) {
	t.Parallel()
	var r readers
	untyped := func(kind string) runtime.Object {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: kind})
		return u
	}
	metadata := func(kind string) runtime.Object {
		return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}}
	}
	for _, obj := range []runtime.Object{
		&corev1.Pod{}, &corev1.PodList{}, &corev1.Secret{}, untyped("Pod"), untyped("Secret"), metadata("Pod"), metadata("Secret"),
	} {
		for _, module := range []string{"a", "b"} {
			if !r.add(readerOf(module, obj)) {
				t.Errorf("module %s: %T is not new", module, obj)
			}
		}
		if r.add(readerOf("a", obj)) {
			t.Errorf("%T is new a second time", obj)
		}
	}
}

// Noting the reader of a cache read does not allocate: a module may read thousands of objects in a reconcile.
func TestAppCache_ReadsAreCheap(t *testing.T) {
	c, obj := cacheOfReads(t)
	c.NoteReader(readingModule, obj)
	if n := testing.AllocsPerRun(100, func() { c.NoteReader(readingModule, obj) }); n > 0 {
		t.Errorf("got %g allocations for a read, want 0", n)
	}
	if watchers := c.budget.watchers["Deployment.apps"]; len(watchers) != 1 || watchers[0] != readingModule {
		t.Errorf("watchers of Deployments: got %q", watchers)
	}
}

const readingModule = "dns"

// cacheOfReads returns a cache that notes readers, and an object to read.
func cacheOfReads(tb testing.TB) (*Cache, runtime.Object) {
	tb.Helper()
	s := runtime.NewScheme()
	must(tb, clientgoscheme.AddToScheme(s))
	return &Cache{options: Options{Scheme: s}, budget: &budget{watchers: map[string][]string{}}}, &appsv1.Deployment{}
}

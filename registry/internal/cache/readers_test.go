// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A reader is noted once, and kinds are distinct even if they share a Go type. Noting one again does not allocate: a module may
// read thousands of objects in a reconcile.
func TestCache_NoteReader(t *testing.T) {
	c := &app{budget: &budget{options: Options{Scheme: scheme.Scheme}, watchers: map[string][]string{}}}
	untyped := func(kind string) runtime.Object {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: kind})
		return u
	}
	metadata := func(kind string) runtime.Object {
		return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}}
	}
	noted := 0
	for _, obj := range []runtime.Object{
		&corev1.Pod{}, &corev1.PodList{}, &corev1.Secret{}, untyped("Pod"), untyped("Secret"), metadata("Pod"), metadata("Secret"),
		&appsv1.Deployment{},
	} {
		for _, module := range []string{"b", "a", "b"} {
			c.noteReader(module, obj)
		}
		if noted += 2; len(*c.readers.Load()) != noted {
			t.Errorf("with %T there are %d readers, want %d", obj, len(*c.readers.Load()), noted)
		}
	}
	one := &appsv1.Deployment{}
	if n := testing.AllocsPerRun(100, func() { c.noteReader("a", one) }); n > 0 {
		t.Errorf("got %g allocations for a read, want 0", n)
	}
	testkit.Equal(t, c.watchers, map[string][]string{"Pod": {"a", "b"}, "Secret": {"a", "b"}, "Deployment.apps": {"a", "b"}})
}

// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// Kind is a Server whose tests are about the objects of one kind.
type Kind[T any, O interface {
	*T
	client.Object
}] struct{ *Server }

// NewKind returns New for a kind that the API server serves.
func NewKind[T any, O interface {
	*T
	client.Object
}](t testing.TB, config *rest.Config, add ...func(*runtime.Scheme) error) Kind[T, O] {
	t.Helper()
	return Kind[T, O]{New(t, config, add...)}
}

// Make creates an object.
func (k Kind[T, O]) Make(name string, change ...func(O)) O {
	k.T.Helper()
	o := O(new(T))
	o.SetName(name)
	o.SetNamespace(k.Namespace)
	for _, f := range change {
		f(o)
	}
	testkit.Must(k.T, k.Create(k.T.Context(), o))
	return o
}

// Read returns an object.
func (k Kind[T, O]) Read(name string) O {
	k.T.Helper()
	o := O(new(T))
	testkit.Must(k.T, k.Get(k.T.Context(), k.Key(name), o))
	return o
}

// Change updates an object until there is no conflict.
func (k Kind[T, O]) Change(name string, f func(O)) {
	k.T.Helper()
	k.Eventually(func() error {
		o := k.Read(name)
		f(o)
		return k.Update(k.T.Context(), o)
	})
}

// Remove deletes an object, which its finalizers may keep.
func (k Kind[T, O]) Remove(name string) {
	k.T.Helper()
	o := O(new(T))
	o.SetName(name)
	o.SetNamespace(k.Namespace)
	testkit.Must(k.T, k.Delete(k.T.Context(), o))
}

// IsGone returns an error while an object exists.
func (k Kind[T, O]) IsGone(name string) error {
	err := k.Get(k.T.Context(), k.Key(name), O(new(T)))
	if err == nil {
		return fmt.Errorf("%s still exists", name)
	}
	return client.IgnoreNotFound(err)
}

// ExpectGone waits until an object does not exist.
func (k Kind[T, O]) ExpectGone(name string) {
	k.T.Helper()
	k.Eventually(func() error { return k.IsGone(name) })
}

// ConditionsSchema is the OpenAPI schema of a list of metav1.Condition, as controller-gen would generate it.
const ConditionsSchema = `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [type], items: {
  type: object, required: [type, status, reason, message, lastTransitionTime], properties: {
    type: {type: string}, status: {type: string}, message: {type: string, maxLength: 32768},
    reason: {type: string, minLength: 1, maxLength: 1024, pattern: "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
    lastTransitionTime: {type: string, format: date-time}, observedGeneration: {type: integer}}}}`

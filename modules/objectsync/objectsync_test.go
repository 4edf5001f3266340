// SPDX-License-Identifier: Apache-2.0

package objectsync_test

import (
	"errors"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestMain(m *testing.M) {
	fleettest.AtOnce(8)
	os.Exit(hubtest.Main(m))
}

const secrets = `
pull-secrets:
  from: Hub
  kind: {apiVersion: v1, kind: Secret}
  namespaces: {names: [default]}
  objects: {selector: {matchLabels: {sync: everywhere}}}
  to: {naming: Mirror}
  onDeregister: Delete
orders:
  from: Hub
  kind: {apiVersion: v1, kind: ConfigMap}
  namespaces: {template: "tenant-{{cluster}}"}
  objects: {selector: {matchLabels: {order: "true"}}}
  to: {naming: Mirror, namespace: default}
`

func newHub(t *testing.T) *hubtest.Hub {
	t.Helper()
	return restrictedHub(t, secrets, hubtest.Remotes("b"))
}

func meta(namespace, name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
}

// A Secret of the hub is copied into all remotes, follows its original, and is deleted with it; with the permissions that hub rbac
// prints. Reserved annotations are not copied.
func TestFromHub(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	original := &corev1.Secret{ObjectMeta: meta("default", "pull", map[string]string{"sync": "everywhere"}), Data: map[string][]byte{"k": []byte("1")}}
	original.Annotations = map[string]string{"clusterfx.dev/observe": "true", "deployment.kubernetes.io/x": "y", "example.com/kept": "z"}
	hub.Create(original)
	hub.Create(&corev1.Secret{ObjectMeta: meta("default", "other", nil)})
	has := func(value string) {
		t.Helper()
		for _, name := range []string{"a", "b"} {
			found := &corev1.Secret{ObjectMeta: meta("default", "pull", nil)}
			hub.Remote(name).WaitFor(found, func() error {
				switch {
				case string(found.Data["k"]) != value:
					return errors.New("the copy has another value")
				case found.Annotations["clusterfx.dev/observe"] != "", found.Annotations["deployment.kubernetes.io/x"] != "":
					return errors.New("the copy has a reserved annotation")
				case found.Annotations["example.com/kept"] != "z":
					return errors.New("the copy lacks an annotation")
				}
				return nil
			})
		}
	}
	has("1")
	original.Data["k"] = []byte("2")
	testkit.Must(t, hub.Client().Update(t.Context(), original))
	has("2")
	hub.Delete(original)
	for _, name := range []string{"a", "b"} {
		hub.Remote(name).WaitGone(&corev1.Secret{ObjectMeta: meta("default", "pull", nil)})
	}
	if len(original.Finalizers) > 0 {
		t.Error("an original with many copies has a finalizer")
	}
}

// An original with one copy has a finalizer. It can be deleted while the remote is away, when the Cluster has been deleted.
// Promise: a remote is dead, paused or deregistered: objects of the hub stay deletable.
func TestOneToOne(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	hub.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant-a"}})
	a := hub.Remote("a")
	for _, name := range []string{"one", "two"} {
		hub.Create(&corev1.ConfigMap{ObjectMeta: meta("tenant-a", name, map[string]string{"order": "true"})})
		a.WaitFor(&corev1.ConfigMap{ObjectMeta: meta("default", name, nil)}, func() error { return nil })
	}
	one, two := &corev1.ConfigMap{ObjectMeta: meta("tenant-a", "one", nil)}, &corev1.ConfigMap{ObjectMeta: meta("tenant-a", "two", nil)}
	hub.Delete(one)
	a.WaitGone(&corev1.ConfigMap{ObjectMeta: meta("default", "one", nil)})
	hub.WaitGone(one)

	a.Refuse()
	a.WaitNotReady(hubv1.ReasonUnreachable)
	a.Deregister()
	hub.Delete(two)
	hub.WaitGone(two)
}

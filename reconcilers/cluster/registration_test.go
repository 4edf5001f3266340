// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
)

// grace is the time for which a Cluster outlives its Secret in tests that wait for its removal.
const grace = 4 * time.Second

func newRegisteringHub(t testing.TB, grace time.Duration) *hub {
	t.Helper()
	return newHub(t, func(o *hubOptions) { o.registration.DeregisterAfter = grace })
}

// register creates a Secret that registers a cluster by itself.
func (h *hub) register(name string, change func(*corev1.Secret)) {
	h.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: h.namespace,
			Labels:      map[string]string{hubv1.LabelCluster: hubv1.LabelClusterValue},
			Annotations: map[string]string{hubv1.AnnotationClusterLabels: h.labels("")},
		},
		Data: map[string][]byte{"kubeconfig": fleettest.Cluster(h.t, "one").Kubeconfig()},
	}
	if change != nil {
		change(secret)
	}
	h.must(h.Create(h.t.Context(), secret))
}

// labels returns labels for a Cluster in the form of the annotation. They always include the label with which this hub
// sees the Cluster.
func (h *hub) labels(more string) string { return testLabel + "=" + h.namespace + more }

// changeSecret updates a Secret as a user would.
func (h *hub) changeSecret(name string, f func(*corev1.Secret)) {
	h.t.Helper()
	h.eventually(func() error {
		var secret corev1.Secret
		h.must(h.Get(h.t.Context(), client.ObjectKey{Namespace: h.namespace, Name: name}, &secret))
		f(&secret)
		return h.Update(h.t.Context(), &secret)
	})
}

// expectCluster waits for a Cluster that passes a check.
func (h *hub) expectCluster(name string, check func(*hubv1.Cluster) bool) *hubv1.Cluster {
	h.t.Helper()
	var c hubv1.Cluster
	h.eventually(func() error {
		if err := h.Get(h.t.Context(), client.ObjectKey{Name: name}, &c); err != nil {
			return err
		}
		if !check(&c) {
			return fmt.Errorf("%s: labels %v, annotations %v, spec %+v", name, c.Labels, c.Annotations, c.Spec)
		}
		return nil
	})
	return &c
}

func (h *hub) expectEvent(name, reason string) {
	h.t.Helper()
	h.eventually(func() error {
		if got := h.events(name); got[reason] == 0 {
			return fmt.Errorf("events of %s: got %v, want %s", name, got, reason)
		}
		return nil
	})
}

func anyCluster(*hubv1.Cluster) bool { return true }

func missing(c *hubv1.Cluster) bool {
	return c.Annotations[hubv1.AnnotationSecretMissingSince] != ""
}

func notMissing(c *hubv1.Cluster) bool { return !missing(c) }

// Promise: a labeled Secret alone registers a remote.
func TestRegistration_ASecretIsEnough(t *testing.T) {
	t.Parallel()
	h := newRegisteringHub(t, grace)
	name := h.name("a")
	h.register(name, nil)
	h.expectCluster(name, anyCluster)
	c := h.expectReady(name)
	if c.Spec.KubeconfigSecretRef.Name != name || c.Annotations[hubv1.AnnotationSecretUID] == "" ||
		c.Annotations[hubv1.AnnotationSecretName] != name {
		t.Errorf("got spec %+v and annotations %v, want the Secret in both", c.Spec, c.Annotations)
	}

	t.Run("its labels are followed", func(t *testing.T) {
		set := func(more string) {
			h.changeSecret(name, func(s *corev1.Secret) {
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, hubv1.AnnotationClusterLabels, h.labels(more))
			})
		}
		set(",region=eu")
		h.expectCluster(name, func(c *hubv1.Cluster) bool { return c.Labels["region"] == "eu" })
		set(",region=not/a/label")
		h.expectEvent(name, "LabelsRefused")
	})
	t.Run("without it the Cluster goes, with its app", func(t *testing.T) {
		h.deleteSecret(name)
		h.expectCluster(name, missing)
		h.expectEvent(name, "SecretMissing")
		h.expectReason(name, hubv1.ReasonSecretNotFound)
		h.expectGone(name)
	})
}

func (h *hub) expectReason(name, reason string) {
	h.t.Helper()
	h.expect(name, hubv1.ConditionReady, metav1.ConditionFalse, reason)
}

// The only write to a new Cluster before it is Ready, except for those of the status, is that of its finalizer and its identity.
// A Cluster that the hub makes has its finalizer from the beginning.
func TestRegistration_NeedsOneWrite(t *testing.T) {
	t.Parallel()
	h, traffic := newTrafficHub(t, func(o *hubOptions) { o.remotes = nil }) // Clusters are made from Secrets, too.
	byHub, byUser := h.name("a"), h.name("b")
	h.register(byHub, nil)
	h.putKubeconfig(byUser, fleettest.Cluster(t, "one").Kubeconfig())
	h.newCluster(byUser, nil)
	for _, name := range []string{byHub, byUser} {
		h.expectCluster(name, anyCluster)
		c := h.expectReady(name)
		traffic.mu.Lock()
		n := traffic.patched[name]
		traffic.mu.Unlock()
		if n != 1 || !slices.Contains(c.Finalizers, hubv1.FinalizerCluster) {
			t.Errorf("%s: got %d writes and the finalizers %v, want one write of the identity and the finalizer", name, n, c.Finalizers)
		}
	}
}

func TestRegistration_ASecretThatComesBackKeepsItsCluster(t *testing.T) {
	t.Parallel()
	h := newRegisteringHub(t, time.Hour)
	name := h.name("a")
	h.register(name, nil)
	h.expectCluster(name, anyCluster)
	before := h.expectReady(name)
	epoch := h.info(name).Epoch
	h.deleteSecret(name)
	h.expectCluster(name, missing)
	h.register(name, nil)
	h.expectCluster(name, notMissing)
	h.expectEvent(name, "SecretReturned")
	after := h.expectReady(name)
	if after.UID != before.UID || h.info(name).Epoch != epoch {
		t.Errorf("got UID %s, want %s; got epoch %d, want %d", after.UID, before.UID, h.info(name).Epoch, epoch)
	}
	if uid := secretUID(h, name); after.Annotations[hubv1.AnnotationSecretUID] != string(uid) {
		t.Errorf("the Secret's UID is %s, the recorded UID is %s", uid, after.Annotations[hubv1.AnnotationSecretUID])
	}
}

func secretUID(h *hub, name string) types.UID {
	h.t.Helper()
	var secret corev1.Secret
	h.must(h.Get(h.t.Context(), client.ObjectKey{Namespace: h.namespace, Name: name}, &secret))
	return secret.UID
}

func TestRegistration_GoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	h := newRegisteringHub(t, grace)
	kept, gone, unseen, fresh := h.name("kept"), h.name("gone"), h.name("unseen"), h.name("fresh")
	for _, name := range []string{kept, gone, unseen} {
		h.register(name, nil)
		h.expectCluster(name, anyCluster)
	}
	h.deleteSecret(kept)
	h.deleteSecret(gone)
	h.expectCluster(kept, missing)
	h.expectCluster(gone, missing)
	h.stop()
	h.deleteSecret(unseen)
	h.register(kept, nil)
	h.register(fresh, nil)
	h.start()
	h.expectGone(gone)
	h.expectGone(unseen)
	h.expectCluster(fresh, anyCluster)
	h.expectCluster(kept, notMissing)
	h.consistently(time.Second, func() error {
		var c hubv1.Cluster
		return h.Get(t.Context(), client.ObjectKey{Name: kept}, &c)
	})
}

func TestRegistration_DoesNotAdopt(t *testing.T) {
	t.Parallel()
	h := newRegisteringHub(t, time.Millisecond)
	name := h.name("a")
	h.newCluster(name, func(c *hubv1.Cluster) { c.Spec.KubeconfigSecretRef.Name = "another" })
	h.expectReason(name, hubv1.ReasonSecretNotFound)
	before := h.get(name)
	h.register(name, nil)
	h.expectEvent(name, "NotAdopted")
	h.deleteSecret(name)
	h.consistently(time.Second, func() error {
		if now := h.get(name); now.ResourceVersion != before.ResourceVersion {
			return fmt.Errorf("the Cluster changed: %+v", now)
		}
		return nil
	})
	t.Run("but registers when the other one is gone", func(t *testing.T) {
		h.register(name, nil)
		h.remove(name)
		h.expectCluster(name, func(c *hubv1.Cluster) bool { return c.UID != before.UID })
		h.expectReady(name)
	})
}

// A Secret that names an existing Cluster of another Secret waits until that Cluster is gone, and then registers a new
// Cluster.
func TestRegistration_AfterAnotherClusterOfTheName(t *testing.T) {
	t.Parallel()
	const held = "example.com/held"
	h := newRegisteringHub(t, grace)
	another := func(s *corev1.Secret) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, hubv1.AnnotationClusterName, strings.TrimPrefix(s.Name, "secret-of-"))
	}
	for how, c := range map[string]struct{ before, after func(name string) }{
		"being deleted": {
			func(name string) {
				h.remove(name)
				h.register("secret-of-"+name, another)
			},
			func(name string) {
				h.change(name, func(c *hubv1.Cluster) { controllerutil.RemoveFinalizer(c, held) })
			},
		},
		"deleted as the event advises": {
			func(name string) {
				h.register("secret-of-"+name, another)
				h.expectEvent("secret-of-"+name, "NotAdopted")
			},
			func(name string) {
				h.change(name, func(c *hubv1.Cluster) { controllerutil.RemoveFinalizer(c, held) })
				h.remove(name)
			},
		},
	} {
		t.Run(how, func(t *testing.T) {
			name := h.name(strings.ReplaceAll(how, " ", "-"))
			h.newCluster(name, func(c *hubv1.Cluster) {
				c.Spec.KubeconfigSecretRef.Name, c.Finalizers = "missing", []string{held}
			})
			before := h.expect(name, hubv1.ConditionReady, metav1.ConditionFalse, hubv1.ReasonSecretNotFound)
			c.before(name)
			h.register(h.name("witness-"+name[len(name)-5:]), nil) // The controller has processed the earlier Secrets.
			h.expectCluster(h.name("witness-"+name[len(name)-5:]), anyCluster)
			c.after(name)
			h.expectCluster(name, func(c *hubv1.Cluster) bool { return c.UID != before.UID })
			h.expectReady(name)
		})
	}
}

func TestRegistration_UnderAnotherName(t *testing.T) {
	t.Parallel()
	h := newRegisteringHub(t, grace)
	secret, first, second := h.name("secret.with.dots"), h.name("first"), h.name("second")
	rename := func(name string) func(*corev1.Secret) {
		return func(s *corev1.Secret) {
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, hubv1.AnnotationClusterName, name)
		}
	}
	h.register(secret, nil)
	h.expectEvent(secret, "NotRegistered") // The name of a Cluster has no dots.
	h.changeSecret(secret, rename(first))
	h.expectCluster(first, anyCluster)
	h.expectReady(first)
	h.changeSecret(secret, rename(second))
	h.expectCluster(second, anyCluster)
	h.expectReady(second)
	h.expectGone(first)
	h.deleteSecret(secret)
	h.expectGone(second)
}

func TestManagerOptions_HoldOneNamespace(t *testing.T) {
	t.Parallel()
	for object, options := range cluster.ManagerOptions("mine").Cache.ByObject {
		if _, isSecret := object.(*corev1.Secret); !isSecret || len(options.Namespaces) != 1 {
			t.Errorf("%T: got namespaces %v, want one namespace of Secrets", object, options.Namespaces)
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{
				corev1.LastAppliedConfigAnnotation: `{"data":{"kubeconfig":"c2VjcmV0"}}`,
				hubv1.AnnotationClusterName:        "other",
			},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		}}
		if _, err := options.Transform(secret); err != nil {
			t.Fatal(err)
		}
		if len(secret.Annotations) != 1 || secret.Annotations[hubv1.AnnotationClusterName] != "other" || secret.ManagedFields != nil {
			t.Errorf("got annotations %v and managed fields %v after the transform", secret.Annotations, secret.ManagedFields)
		}
	}
}

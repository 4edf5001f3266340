// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
)

// crowd is a hub with Clusters of one remote, whose module counts its cleanup steps.
type crowd struct {
	*hub
	names   []string
	cleaned atomic.Int64
}

// newCrowd starts a hub whose holds are stored, with so many Clusters that are Ready.
func newCrowd(t *testing.T, clusters int, change func(*hubOptions)) *crowd {
	t.Helper()
	c := &crowd{}
	c.hub = newIdleHub(t, func(o *hubOptions) {
		o.modules = []registry.Module{hooked("tidy", nil, nil, func(context.Context) error { c.cleaned.Add(1); return nil })}
		o.registration.DeregisterAfter = time.Second
		if change != nil {
			change(o)
		}
	})
	c.options.registry.Holds = client.ObjectKey{Namespace: c.namespace, Name: cluster.HoldsName}
	c.start()
	t.Cleanup(func() { c.stop() })
	remote := fleettest.Cluster(t, "one")
	for i := range clusters {
		name := c.name(fmt.Sprint("c", i))
		c.names = append(c.names, name)
		c.putKubeconfig(name, remote.Kubeconfig())
	}
	return c
}

// create creates the Clusters, and waits until they are Ready.
func (c *crowd) createAll() {
	c.t.Helper()
	for _, name := range c.names {
		c.newCluster(name, nil)
	}
	for _, name := range c.names {
		c.expectReady(name)
	}
}

// expectAllRegistered waits until the hub has made the Clusters, and they are Ready.
func (c *crowd) expectAllRegistered() {
	c.t.Helper()
	for _, name := range c.names {
		c.eventually(func() error { return c.Get(c.t.Context(), client.ObjectKey{Name: name}, &hubv1.Cluster{}) })
		c.expectReady(name)
	}
}

// left returns the Clusters that there are, and how many of them are being deleted.
func (c *crowd) left() (all []hubv1.Cluster, terminating int) {
	c.t.Helper()
	var list hubv1.ClusterList
	c.must(c.List(c.t.Context(), &list, client.MatchingLabels{testLabel: c.namespace}))
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp != nil {
			terminating++
		}
	}
	return list.Items, terminating
}

// expectHeld waits until so many Clusters show that their removal is held, and no others are left.
func (c *crowd) expectHeld(want int) {
	c.t.Helper()
	c.eventually(func() error {
		all, _ := c.left()
		held := 0
		for i := range all {
			shown := meta.FindStatusCondition(all[i].Status.Conditions, hubv1.ConditionDeletesHeld)
			if shown != nil && strings.Contains(shown.Message, "Their apps run until the removal is allowed") {
				held++
			}
		}
		if held != want || len(all) != want {
			return fmt.Errorf("%d Clusters are left, and %d are held; want %d", len(all), held, want)
		}
		return nil
	})
}

// Three of eight Clusters that are deleted together are removed. The others keep their apps, also across a restart, until an operator
// allows what he saw. A Cluster that a person deregisters is not held, and does not count.
func TestCluster_RemovalsHeld(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 8, nil)
	c.createAll()
	c.must(c.DeleteAllOf(t.Context(), &hubv1.Cluster{}, client.MatchingLabels{testLabel: c.namespace}))
	c.expectHeld(5)
	c.stop()
	c.start()
	c.expectHeld(5)
	if n := c.cleaned.Load(); n != 3 {
		t.Errorf("%d cleanup steps ran, want 3", n)
	}
	all, _ := c.left()
	for i := range all {
		c.expectRunning(all[i].Name)
	}
	c.change(all[0].Name, func(one *hubv1.Cluster) {
		metav1.SetMetaDataAnnotation(&one.ObjectMeta, hubv1.AnnotationDeregister, string(one.UID))
	})
	c.expectGone(all[0].Name)
	c.expectHeld(4)

	holds := c.registry.HeldDeletes()
	if len(holds) != 1 || holds[0].Cluster != "" || holds[0].Module != "hub" || holds[0].Resource.Resource != "clusters" {
		t.Fatalf("the holds are %+v", holds)
	}
	stored := &corev1.ConfigMap{}
	c.must(c.Get(t.Context(), c.options.registry.Holds, stored))
	metav1.SetMetaDataAnnotation(&stored.ObjectMeta, hubv1.AnnotationAllowDeletes, holds[0].ID+"=3")
	c.must(c.Update(t.Context(), stored))
	c.expectHeld(1)
}

// Of a fleet whose registration Secrets are all gone, or have lost their label, three Clusters are removed. The others are not deleted,
// and stay when the Secrets are back.
func TestCluster_RegistrationsHeld(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 6, nil)
	label := func(value *string) {
		t.Helper()
		for _, name := range c.names {
			secret := &corev1.Secret{}
			c.must(c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, secret))
			secret.Annotations = map[string]string{hubv1.AnnotationClusterLabels: testLabel + "=" + c.namespace}
			secret.Labels = nil
			if value != nil {
				secret.Labels = map[string]string{hubv1.LabelCluster: *value}
			}
			c.must(c.Update(t.Context(), secret))
		}
	}
	yes := hubv1.LabelClusterValue
	label(&yes)
	c.expectAllRegistered()
	label(nil)
	for _, name := range c.names {
		c.expectMissing(name)
	}
	c.eventually(func() error {
		all, terminating := c.left()
		if len(all) != 3 || terminating != 0 || len(c.registry.HeldDeletes()) != 1 {
			return fmt.Errorf("%d Clusters are left, %d being deleted, with holds %+v", len(all), terminating, c.registry.HeldDeletes())
		}
		return nil
	})
	all, _ := c.left()
	for i := range all {
		c.expectNote(all[i].Name, "RemovalHeld", "deletes are held")
	}
	label(&yes)
	c.expectAllRegistered()
	if n := c.cleaned.Load(); n != 3 {
		t.Errorf("%d cleanup steps ran, want 3", n)
	}
}

// expectMissing waits until it is noted that the Secret of a Cluster is missing, or the Cluster is gone.
func (c *crowd) expectMissing(name string) {
	c.t.Helper()
	c.eventually(func() error {
		var one hubv1.Cluster
		err := c.Get(c.t.Context(), client.ObjectKey{Name: name}, &one)
		if err == nil && one.Annotations[hubv1.AnnotationSecretMissingSince] == "" {
			return fmt.Errorf("the Secret of %s is not missed", name)
		}
		return client.IgnoreNotFound(err)
	})
}

// newRegistered is newCrowd with one Cluster that is made from its Secret.
func newRegistered(t *testing.T) (*crowd, *corev1.Secret) {
	t.Helper()
	c := newCrowd(t, 1, nil)
	secret := &corev1.Secret{}
	c.must(c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: c.names[0]}, secret))
	secret.Annotations = map[string]string{hubv1.AnnotationClusterLabels: testLabel + "=" + c.namespace}
	secret.Labels = map[string]string{hubv1.LabelCluster: hubv1.LabelClusterValue}
	c.must(c.Update(t.Context(), secret))
	c.expectAllRegistered()
	return c, secret
}

// A Secret that goes with its Namespace takes no Cluster with it.
func TestCluster_SecretGoneWithItsNamespace(t *testing.T) {
	t.Parallel()
	c, secret := newRegistered(t)
	c.must(c.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}))
	c.must(c.Delete(t.Context(), secret))
	c.expectNote(c.names[0], "SecretMissing", "is gone with its namespace, so the hub does not delete the Cluster")
	if one := c.get(c.names[0]); one.DeletionTimestamp != nil {
		t.Errorf("the Cluster is %+v", one.ObjectMeta)
	}
}

// A hub with another credentials namespace leaves the Clusters alone that were made from Secrets.
func TestCluster_OtherCredentialsNamespace(t *testing.T) {
	t.Parallel()
	c, _ := newRegistered(t)
	c.stop()
	c.options.registration.Namespace = "other"
	c.start()
	c.expectNote(c.names[0], "OtherNamespace", "--credentials-namespace="+c.namespace)
	if one := c.get(c.names[0]); one.DeletionTimestamp != nil || one.Annotations[hubv1.AnnotationSecretMissingSince] != "" {
		t.Errorf("the Cluster is %+v", one.ObjectMeta)
	}
}

// When the definition of Clusters is deleted, with all Clusters, their apps stop, and no cleanup step runs.
func TestCluster_DefinitionDeleted(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 4, func(o *hubOptions) { o.role = "undefined" })
	c.createAll()
	s := runtime.NewScheme()
	c.must(apiextensionsv1.AddToScheme(s))
	definitions, err := client.New(c.cluster.Config(), client.Options{Scheme: s})
	c.must(err)
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "clusters.clusterfx.dev"}}
	c.must(definitions.Delete(t.Context(), crd))
	c.eventually(func() error {
		err := definitions.Get(t.Context(), client.ObjectKeyFromObject(crd), crd)
		if err == nil {
			return fmt.Errorf("the definition is still there")
		}
		return client.IgnoreNotFound(err)
	})
	for _, name := range c.names {
		c.eventually(func() error {
			if info, ok := c.registry.Status(registry.ClusterName(name)); ok {
				return fmt.Errorf("the app of %s is %s", name, info.State)
			}
			return nil
		})
	}
	if n := c.cleaned.Load(); n != 0 {
		t.Errorf("%d cleanup steps ran", n)
	}
}

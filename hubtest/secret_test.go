// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/hubtest"
)

// A Secret alone registers a remote, with the labels of its annotation, and still registers it after a rotation of the
// token.
func TestRemote_RegisterBySecret(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Modules(echo()))
	edge := hub.NewRemote("edge")
	edge.RegisterBySecret(func(s *corev1.Secret) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, hubv1.AnnotationClusterLabels, "region=eu")
	})
	edge.WaitReady()
	edge.WaitModule("echo", hubv1.ModuleRunning)
	if got := edge.Cluster().Labels["region"]; got != "eu" {
		t.Errorf("label region: got %q, want eu", got)
	}
	edge.RotateToken()
	if labels := secretOf(t, hub, edge).Labels; labels[hubv1.LabelCluster] != hubv1.LabelClusterValue {
		t.Errorf("rotated Secret no longer registers the remote: got labels %v", labels)
	}
	edge.Change(func(c *hubv1.Cluster) { c.Spec.State = hubv1.ClusterPaused })
	edge.Change(func(c *hubv1.Cluster) { c.Spec.State = hubv1.ClusterActive })
	edge.WaitReady()
	edge.Deregister()
	before := hub.Baseline()
	edge.Register()
	edge.WaitReady()
	edge.Deregister()
	before.Wait()
}

// When the Secret that registered a remote is deleted, the hub deletes the Cluster after a grace period.
func TestRemote_DeleteSecret(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Modules(echo()))
	edge := hub.NewRemote("edge")
	edge.RegisterBySecret()
	edge.WaitReady()
	hub.Delete(secretOf(t, hub, edge))
	cluster := edge.Cluster()
	hub.WaitFor(cluster, func() error {
		if cluster.Annotations[hubv1.AnnotationSecretMissingSince] == "" {
			return errors.New("the hub has not noticed that the Secret is missing")
		}
		return nil
	})
	edge.Change(func(c *hubv1.Cluster) { // The grace period ends early.
		c.Annotations[hubv1.AnnotationSecretMissingSince] = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	})
	hub.WaitGone(cluster)
	if _, known := hub.Registry().Status("edge"); known {
		t.Error("hub knows a remote whose Secret is deleted")
	}
}

// A kubeconfig of a remote passes through the remote's faults and differs from the kubeconfig of the hub.
func TestRemote_Kubeconfig(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Rules(may("namespaces", "get")))
	edge := hub.Remote("edge")
	kubeconfig := edge.Kubeconfig()
	if string(kubeconfig) == string(secretOf(t, hub, edge).Data["kubeconfig"]) {
		t.Error("kubeconfig is the hub's kubeconfig")
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	read := func() error {
		return c.Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{})
	}
	if err := read(); err != nil {
		t.Error(err)
	}
	edge.Refuse()
	if err := read(); err == nil {
		t.Error("request with the kubeconfig bypasses the faults")
	}
	edge.Repair()
	edge.RotateToken() // this revokes the hub's token
	if err := read(); err != nil {
		t.Error(err)
	}
}

func TestRemote_WaitModuleGone(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Modules(echo()))
	edge := hub.Remote("edge")
	edge.WaitModule("echo", hubv1.ModuleRunning)
	edge.Change(func(c *hubv1.Cluster) { c.Spec.Modules = []string{"another"} })
	edge.WaitModuleGone("echo")

	edge.Change(func(c *hubv1.Cluster) { c.Spec.Modules = []string{"echo"} })
	edge.WaitModule("echo", hubv1.ModuleRunning)
	expectSaid(t, fails(t, func(tb *failing) {
		hub := hub.With(tb)
		hub.SetPatience(short)
		hub.Remote("edge").WaitModuleGone("echo")
	}), []string{"module echo to be gone", "it is Running, in the status of edge"})
}

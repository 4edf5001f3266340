// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/hubtest"
)

// A Secret alone registers a remote, also with other credentials, and takes its Cluster along when it goes.
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
		t.Errorf("the label is %q", got)
	}
	edge.RotateToken()
	if labels := secretOf(t, hub, edge).Labels; labels[hubv1.LabelCluster] != hubv1.LabelClusterValue {
		t.Errorf("the Secret no longer registers the remote: %v", labels)
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

// A kubeconfig of a remote leads through its faults, and differs from the kubeconfig of the hub.
func TestRemote_Kubeconfig(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Rules(may("namespaces", "get")))
	edge := hub.Remote("edge")
	kubeconfig := edge.Kubeconfig()
	if string(kubeconfig) == string(secretOf(t, hub, edge).Data["kubeconfig"]) {
		t.Error("it is the hub's")
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
		t.Error("it leads past the faults")
	}
	edge.Repair()
	edge.RotateToken() // which revokes the hub's
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

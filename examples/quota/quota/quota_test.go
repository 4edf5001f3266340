// SPDX-License-Identifier: Apache-2.0

package quota_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/examples/quota/quota"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/registry/state"
)

func TestMain(m *testing.M) { os.Exit(hubtest.Main(m)) }

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "a"}}}
}

func quotaIn(namespace string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "clusterfx-quota"}}
}

func TestQuota(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("a", "b"), hubtest.Modules(quota.Module))
	a := hub.Remote("a")

	a.Create(namespace("shop"))
	made := quotaIn("shop")
	a.WaitFor(made, func() error { return expect(made.Spec.Hard.Pods().Value(), 100) })

	a.Delete(made) // A user deletes it; the module creates it again.
	a.WaitFor(made, func() error { return expect(made.Labels["quota.example.com/managed"], "true") })

	counted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "clusterfx-quota-a"}}
	hub.WaitFor(counted, func() error { return expect(counted.Data["count"], "1") })
}

func expect[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

// After an outage the module makes up for changes during the outage.
func TestQuota_Outage(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("a"), hubtest.Modules(quota.Module))
	a := hub.Remote("a")
	a.Blackhole()
	a.WaitNotReady(hubv1.ReasonTimedOut)
	a.Create(namespace("shop"))
	a.Repair()
	a.WaitFor(quotaIn("shop"), func() error { return nil })
}

// The module works with its declared permissions only, in the remote and in the hub.
func TestQuota_Rights(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("a"), hubtest.Modules(quota.Module), hubtest.DeclaredHubRights())
	hub.WaitHubPart("quota", state.ModuleRunning, "")
	hub.Remote("a").Create(namespace("shop"))
	hub.Remote("a").WaitFor(quotaIn("shop"), func() error { return nil })
	counted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "clusterfx-quota-a"}}
	hub.WaitFor(counted, func() error { return expect(counted.Data["count"], "1") })
}

// An operator sets a lower limit for remotes with a label.
func TestQuota_Config(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("a"), hubtest.Modules(quota.Module),
		hubtest.Clusters(func(c *hubv1.Cluster) { c.Labels = map[string]string{"tier": "edge"} }),
		hubtest.ModuleConfig("quota", `
config: {pods: 50}
overrides:
- selector: {matchLabels: {tier: edge}}
  config: {pods: 10}
`))
	a := hub.Remote("a")
	a.Create(namespace("shop"))
	made := quotaIn("shop")
	a.WaitFor(made, func() error { return expect(made.Spec.Hard.Pods().Value(), 10) })
}

// A ResourceQuota of the same name that the module did not create stays unchanged, also when the remote is
// deregistered.
func TestQuota_NameTaken(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("a"), hubtest.Modules(quota.Module))
	a := hub.Remote("a")
	theirs := quotaIn("shop")
	theirs.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("5")}
	a.Blackhole() // The module sees the Namespace with the ResourceQuota.
	a.Create(namespace("shop"), theirs)
	a.Repair()
	a.Create(namespace("zoo")) // The module handles it after shop.
	a.WaitFor(quotaIn("zoo"), func() error { return nil })
	a.Deregister()
	a.WaitGone(quotaIn("zoo"))
	a.WaitFor(theirs, func() error {
		return errors.Join(expect(theirs.Spec.Hard.Pods().Value(), 5), expect(len(theirs.Labels), 0))
	})
}

// After a remote is deregistered, no ResourceQuota remains in it.
func TestQuota_Cleanup(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("a"), hubtest.Modules(quota.Module))
	a := hub.Remote("a")
	a.Create(namespace("shop"))
	a.WaitFor(quotaIn("shop"), func() error { return nil })
	a.Deregister()
	a.WaitGone(quotaIn("shop"))
}

// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/examples/vcluster/fakenodes"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

func podOn(namespace, name, node, owner string) *corev1.Pod {
	yes, p := true, pod(namespace, name)
	p.Spec.NodeName = node
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: "x", UID: "x", Controller: &yes}}
	}
	return p
}

func ready(n *corev1.Node) error {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && len(n.Spec.Taints) == 0 {
			return nil
		}
	}
	return expect(n.Status.Conditions, "Ready")
}

// Promise: ControllerModifier, ControllerStarter: when the caches run.
func TestFakeNodes(t *testing.T) {
	t.Parallel()
	p := start(t, func(p *pair) []syncer.Item {
		return []syncer.Item{
			fakenodes.Item(p.id),
			syncer.Of(&syncer.Copy[*corev1.Pod]{Called: "pods"}, syncer.NewNamespaced[*corev1.Pod](p.id, syncer.TranslatorOptions{}),
				syncer.Options[*corev1.Pod]{Select: func(up *corev1.Pod) bool { return up.Labels["copy"] != "" }}),
		}
	})
	name := func(node string) string { return p.upNS + "." + node }
	node := func(of string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name(of)}} }
	deleteNow := func(c client.Client, one *corev1.Pod) {
		must(t, c.Delete(t.Context(), one, client.GracePeriodSeconds(0)))
	}
	theirs := node("theirs")
	create(t, p.up, theirs)

	// Two Pods need one Node; a Pod of a DaemonSet does not.
	first, second := podOn(p.upNS, "first", name("a"), "ReplicaSet"), podOn(p.upNS, "second", name("a"), "")
	daemon := podOn(p.upNS, "daemon", name("a"), "DaemonSet")
	for _, one := range []*corev1.Pod{
		first, second, daemon, podOn(p.upNS, "other-daemon", name("b"), "DaemonSet"), podOn(p.upNS, "on-theirs", name("theirs"), ""),
	} {
		create(t, p.up, one)
	}
	a := node("a")
	waitFor(t, p.up, a, func() error { return ready(a) })
	must(t, expect(a.Status.Addresses[0].Address, p.upNS+"-a.nodes.example.com"))
	deleteNow(p.up, first)

	// A deleted Node and a changed status are repaired.
	uid := a.UID
	must(t, p.up.Delete(t.Context(), a))
	waitFor(t, p.up, a, func() error {
		if a.UID == uid {
			return expect(a.UID, "another")
		}
		return ready(a)
	})
	a.Status.Conditions = nil
	must(t, p.up.Status().Update(t.Context(), a))
	waitFor(t, p.up, a, func() error { return ready(a) })
	deleteNow(p.up, second)
	fleettest.Gone(t, p.up, a)

	// The copy of a Pod that was scheduled downstream needs a Node, too.
	original := pod(p.upNS, "copied")
	original.Labels = map[string]string{"copy": "yes"}
	create(t, p.up, original)
	copied := pod(p.downNS, p.downName("copied"))
	waitFor(t, p.down, copied, func() error { return nil })
	create(t, p.down, podOn(p.downNS, "of-the-host", name("host"), ""))
	must(t, p.down.SubResource("binding").Create(t.Context(), copied, &corev1.Binding{
		ObjectMeta: meta(p.downNS, copied.Name), Target: corev1.ObjectReference{Kind: "Node", Name: name("c")},
	}))
	c := node("c")
	waitFor(t, p.up, c, func() error { return ready(c) })
	must(t, p.up.Delete(t.Context(), original, client.GracePeriodSeconds(0)))
	eventually(t, func() error { // A Pod on a Node waits for the kubelet.
		return client.IgnoreNotFound(p.down.Delete(t.Context(), copied, client.GracePeriodSeconds(0)))
	})
	fleettest.Gone(t, p.up, c)

	deleteNow(p.up, podOn(p.upNS, "on-theirs", "", ""))
	fleettest.Gone(t, p.up, node("b"))
	fleettest.Gone(t, p.up, node("host"))
	unchanged(t, p.up, theirs)
}

// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/examples/vcluster/hooks"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: meta(namespace, name),
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "pause:1"}}},
	}
}

func service(namespace, name string, ports ...int32) *corev1.Service {
	s := &corev1.Service{ObjectMeta: meta(namespace, name), Spec: corev1.ServiceSpec{Selector: map[string]string{"a": "b"}}}
	for _, port := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "web", Port: port, Protocol: corev1.ProtocolTCP})
	}
	return s
}

func TestHooks(t *testing.T) {
	t.Parallel()
	p := start(t, func(p *pair) []syncer.Item {
		return hooks.Items(p.id, types.NamespacedName{Namespace: p.upNS, Name: "test"})
	})

	// Pods have the label downstream only, also after an update.
	theirs := pod(p.downNS, p.downName("taken"))
	create(t, p.down, theirs)
	create(t, p.up, pod(p.upNS, "taken"))
	original, copied := pod(p.upNS, "a"), pod(p.downNS, p.downName("a"))
	create(t, p.up, original)
	labels := func(mine string) func() error {
		return func() error {
			return expect([]string{copied.Labels[hooks.Label], copied.Labels["mine"]}, []string{"pod-hook", mine})
		}
	}
	waitFor(t, p.down, copied, labels(""))
	patch(t, p.up, original, `{"metadata":{"labels":{"mine":"1"}}}`)
	waitFor(t, p.down, copied, labels("1"))
	must(t, expect(original.Labels, map[string]string{"mine": "1"}))

	// Services have the port downstream only.
	web, webCopy := service(p.upNS, "web", 80), service(p.downNS, p.downName("web"))
	create(t, p.up, web)
	ports := func() (all []int32) {
		for _, port := range webCopy.Spec.Ports {
			all = append(all, port.Port)
		}
		return all
	}
	waitFor(t, p.down, webCopy, func() error { return expect(ports(), []int32{80, hooks.Port}) })
	patch(t, p.up, web, `{"spec":{"ports":[{"name":"web","port":81}]}}`)
	waitFor(t, p.down, webCopy, func() error { return expect(ports(), []int32{81, hooks.Port}) })
	waitFor(t, p.up, web, func() error { return expect(len(web.Spec.Ports), 1) })

	// One Secret is copied, without the annotation.
	create(t, p.up, secret(p.upNS, "other", "1"))
	tenants, tenantsCopy := secret(p.upNS, "test", ""), secret(p.downNS, p.downName("test"), "")
	waitFor(t, p.down, tenantsCopy, func() error { return expect(string(tenantsCopy.Data["my-data"]), "my-data") })
	waitFor(t, p.up, tenants, func() error {
		return expect(tenants.Annotations[hooks.Forced]+tenantsCopy.Annotations[hooks.Forced], "")
	})

	must(t, p.up.Delete(t.Context(), web))
	must(t, p.up.Delete(t.Context(), tenants))
	must(t, p.up.Delete(t.Context(), original))
	fleettest.Gone(t, p.down, webCopy)
	fleettest.Gone(t, p.down, tenantsCopy)
	fleettest.Gone(t, p.down, copied)
	fleettest.Gone(t, p.down, secret(p.downNS, p.downName("other"), ""))
	p.conflict(t, "taken")
	unchanged(t, p.down, theirs)
}

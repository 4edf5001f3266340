// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/examples/features"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

func flags(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "features-cart"}}
}

// Feature flags reach all remotes, follow their program into another namespace, and go with their key.
func TestFeatures(t *testing.T) {
	fleettest.Slow(t, "./reconcilers/entity TestController_Follows")
	t.Parallel()
	server := nats.Start(t)
	_, js := nats.Connect(t, server.URL())
	bucket := nats.Bucket(t, js, "features")
	hub := hubtest.New(t, hubtest.Remotes("a", "b"), hubtest.Modules(natshub.Module, features.Module),
		hubtest.Rules(rbac.RemoteRules(features.Module)...), hubtest.NATS(server.URL()))
	remotes := []*hubtest.Remote{hub.Remote("a"), hub.Remote("b")}

	for _, namespace := range []string{metav1.NamespaceDefault, "kube-public"} {
		putFlags(t, bucket, `{"namespace":"`+namespace+`","flags":{"dark":"on"}}`)
		for _, r := range remotes {
			made := flags(namespace)
			r.WaitFor(made, func() error { return expectFlags(made, "on") })
		}
	}
	for _, r := range remotes {
		r.WaitGone(flags(metav1.NamespaceDefault))
	}

	putFlags(t, bucket, `{"flags":{"dark":"off"}}`) // It cannot be made, and changes nothing.
	putFlags(t, bucket, `{"namespace":"kube-public","flags":{"dark":"dim"}}`)
	for _, r := range remotes {
		made := flags("kube-public")
		r.WaitFor(made, func() error { return expectFlags(made, "dim") })
	}
	must(t, bucket.Delete(t.Context(), "cart"))
	for _, r := range remotes {
		r.WaitGone(flags("kube-public"))
	}
}

func putFlags(t *testing.T, bucket jetstream.KeyValue, text string) {
	t.Helper()
	if _, err := bucket.Put(t.Context(), "cart", []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func expectFlags(made *corev1.ConfigMap, dark string) error {
	if made.Data["dark"] != dark {
		return fmt.Errorf("the flags are %v, want dark=%s", made.Data, dark)
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

// Package tests runs the examples.
package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

func TestMain(m *testing.M) {
	fleettest.AtOnce(4)
	os.Exit(hubtest.Main(m))
}

// pair is a pair between two API servers, with a namespace of the test in each.
type pair struct {
	up, down     client.Client
	upNS, downNS string
	id           syncer.Identity
	items        []syncer.Item
}

func start(t *testing.T, items func(p *pair) []syncer.Item) *pair {
	t.Helper()
	clusters := fleettest.Clusters(t, "up", "down")
	manager, err := ctrl.NewManager(clusters[0].Config(), ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	must(t, err)
	other, err := cluster.New(clusters[1].Config())
	must(t, err)
	must(t, manager.Add(other))
	p := &pair{up: fleettest.Client(t, clusters[0]), down: fleettest.Client(t, clusters[1])}
	p.upNS, p.downNS = fleettest.Namespace(t, p.up, "vc-"), fleettest.Namespace(t, p.down, "vc-")
	p.id = syncer.Identity{Tenant: p.upNS, TargetNamespace: p.downNS}
	p.items = items(p)
	made, err := syncer.NewPair(syncer.PairOptions{
		Name: "pair", Manager: manager, Identity: p.id,
		Upstream: syncer.InProcess(manager), Downstream: syncer.InProcess(other),
	})
	must(t, err)
	must(t, syncer.Start(t.Context(), made, p.items...))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the manager ended: %v", err)
		}
	})
	return p
}

// downName returns the name of the copy of an object.
func (p *pair) downName(name string) string { return name + "-x-" + p.upNS + "-x-" + p.upNS }

var must, eventually = testkit.Must, testkit.Eventually

func create(t *testing.T, c client.Client, obj client.Object) {
	t.Helper()
	must(t, c.Create(t.Context(), obj))
}

func patch(t *testing.T, c client.Client, obj client.Object, text string) {
	t.Helper()
	must(t, c.Patch(t.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(text))))
}

// waitFor waits until an object exists and check returns nil.
func waitFor(t *testing.T, c client.Client, obj client.Object, check func() error) {
	t.Helper()
	eventually(t, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		return check()
	})
}

// unchanged checks that an object is exactly as it was created.
func unchanged(t *testing.T, c client.Client, obj client.Object) {
	t.Helper()
	revision, uid := obj.GetResourceVersion(), obj.GetUID()
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
	if obj.GetResourceVersion() != revision || obj.GetUID() != uid {
		t.Errorf("%s has changed: %v", obj.GetName(), obj)
	}
}

// conflict waits for the event about an object whose copy has a name that is taken.
func (p *pair) conflict(t *testing.T, about string) {
	t.Helper()
	eventually(t, func() error {
		var all corev1.EventList
		if err := p.up.List(t.Context(), &all, client.InNamespace(p.upNS)); err != nil {
			return err
		}
		for i := range all.Items {
			if all.Items[i].InvolvedObject.Name == about && all.Items[i].Reason == syncer.ReasonNameConflict {
				return nil
			}
		}
		return fmt.Errorf("%d events, none of a conflict", len(all.Items))
	})
}

// expect compares two values by how they print.
func expect(got, want any) error {
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func secret(namespace, name, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: meta(namespace, name), Data: map[string][]byte{"k": []byte(value)}}
}

// has checks the data of a Secret.
func has(s *corev1.Secret, value string) func() error {
	return func() error { return expect(string(s.Data["k"]), value) }
}

// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

var must, eventually = testkit.Must, testkit.Eventually

// configMap is the kind of most objects in these tests.
const configMap = "ConfigMap"

// translator returns a translator of the identity of the bench for ConfigMaps, as Register binds it.
func (b *bench) translator() syncer.Translator[*corev1.ConfigMap] {
	return syncer.NewNamespaced[*corev1.ConfigMap](b.pair.Identity(), syncer.TranslatorOptions{Kind: corev1.SchemeGroupVersion.WithKind(configMap)})
}

// inTest selects the objects of the test.
func (b *bench) inTest(up *corev1.ConfigMap) bool {
	return up.Namespace == b.upNS && up.Name != "kube-root-ca.crt"
}

// register registers a syncer with names that NewNamespaced translates.
func (b *bench) register(t *testing.T, s syncer.Syncer[*corev1.ConfigMap], o syncer.Options[*corev1.ConfigMap]) {
	t.Helper()
	if o.Select == nil {
		o.Select = b.inTest
	}
	must(t, syncer.Register(b.pair, s, b.translator(), o))
}

// process makes the manager and the pair with other options of the manager, as a new process does.
func (b *bench) process(t *testing.T, o ctrl.Options, change func(*syncer.PairOptions)) {
	t.Helper()
	clusters := fleettest.Clusters(t, "up", "down")
	o.Metrics, o.HealthProbeBindAddress = metricsserver.Options{BindAddress: "0"}, "0"
	manager, err := ctrl.NewManager(b.through(clusters[0].Config()), o)
	must(t, err)
	other, err := cluster.New(b.through(clusters[1].Config()))
	must(t, err)
	must(t, manager.Add(other))
	p := syncer.PairOptions{
		Name: "pair", Manager: manager, Upstream: syncer.InProcess(manager), Downstream: syncer.InProcess(other),
		Identity: syncer.Identity{Tenant: b.upNS, TargetNamespace: b.downNS}, OneToOne: true,
	}
	if change != nil {
		change(&p)
	}
	pair, err := syncer.NewPair(p)
	must(t, err)
	b.manager, b.pair, b.upHost, b.downHost = manager, pair, manager, other
}

func (b *bench) events(t *testing.T, name, reason string) []eventsv1.Event {
	t.Helper()
	var list eventsv1.EventList
	must(t, b.up.List(t.Context(), &list, client.InNamespace(b.upNS)))
	var all []eventsv1.Event
	for _, e := range list.Items {
		if e.Reason == reason && e.Regarding.Name == name {
			all = append(all, e)
		}
	}
	return all
}

// expectEvent waits for an event of an upstream object that contains a text.
func (b *bench) expectEvent(t *testing.T, name, reason, text string) eventsv1.Event {
	t.Helper()
	var found eventsv1.Event
	eventually(t, func() error {
		for _, e := range b.events(t, name, reason) {
			if strings.Contains(e.Note, text) {
				found = e
				return nil
			}
		}
		return fmt.Errorf("%s has no event %s with %q", name, reason, text)
	})
	return found
}

// expectUnchanged fails if a downstream object has been written or deleted since it was read.
func (b *bench) expectUnchanged(t *testing.T, known *corev1.ConfigMap) {
	t.Helper()
	now := &corev1.ConfigMap{}
	if err := b.down.Get(t.Context(), client.ObjectKeyFromObject(known), now); err != nil {
		t.Fatalf("%s: %v", known.Name, err)
	}
	if now.UID != known.UID || now.ResourceVersion != known.ResourceVersion {
		t.Fatalf("%s has been written: revision %s, was %s: %v", known.Name, now.ResourceVersion, known.ResourceVersion, now)
	}
}

// barrier returns when the pair has made copies that were requested after everything before: by then each of its workers
// has taken up the earlier requests.
func (b *bench) barrier(t *testing.T, name string) {
	t.Helper()
	for i := range 2 {
		one := fmt.Sprintf("barrier-%s-%d", name, i)
		must(t, b.up.Create(t.Context(), b.original(one, map[string]string{"barrier": one})))
		b.wait(t, one, map[string]string{"barrier": one})
	}
}

// label sets a label with a patch of its own, and updates obj.
func (b *bench) label(t *testing.T, c client.Client, obj client.Object, key, value string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{key: value}}})
	must(t, err)
	must(t, c.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, patch)))
}

// cached returns an original that a cache with a selector contains.
func (b *bench) cached(name string) *corev1.ConfigMap {
	obj := b.original(name, nil)
	obj.Labels = map[string]string{"cached": "yes"}
	return obj
}

func labelSelector(t *testing.T, text string) labels.Selector {
	t.Helper()
	s, err := labels.Parse(text)
	must(t, err)
	return s
}

// sum adds up what a counter has for these values of its labels.
func sum(t *testing.T, from prometheus.Gatherer, name string, values ...string) float64 {
	t.Helper()
	families, err := from.Gather()
	must(t, err)
	total := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			lacks := func(value string) bool {
				return !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == value })
			}
			if !slices.ContainsFunc(values, lacks) {
				total += m.GetCounter().GetValue()
			}
		}
	}
	return total
}

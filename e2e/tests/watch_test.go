// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// The versions that are written while the API server ends the watch are seen: none is lost, and the test does not fail.
func TestWatch_GoesOn(t *testing.T) {
	t.Parallel()
	cluster := fleettest.Cluster(t, "watched")
	proxy, text := fleettest.ProxyTo(t, cluster)
	through, err := clientcmd.RESTConfigFromKubeConfig(text)
	must(t, err)
	watched, direct := fleettest.ClientFor(t, through), fleettest.Client(t, cluster)
	create := func(name string) {
		must(t, direct.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: name, Labels: map[string]string{"watched": "true"},
		}}))
	}
	seen := make(chan string, 8)
	expect := func(name string) {
		t.Helper()
		select {
		case got := <-seen:
			if got != name {
				t.Fatalf("got %s, want %s", got, name)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s is not seen", name)
		}
	}

	create("listed")
	stop := fleettest.Watch(t, fleettest.Watched{
		Client: watched, List: &corev1.ConfigMapList{}, Options: []client.ListOption{client.MatchingLabels{"watched": "true"}},
	}, func(o client.Object) { seen <- o.GetName() })
	expect("listed")
	create("watched")
	expect("watched")
	must(t, proxy.Set(fault.Refuse()))
	create("during-the-cut")
	must(t, proxy.Set(fault.Pass()))
	expect("during-the-cut")
	stop()
	create("afterwards")
	if len(seen) > 0 {
		t.Errorf("%s is seen after stop", <-seen)
	}
}

var must = testkit.Must

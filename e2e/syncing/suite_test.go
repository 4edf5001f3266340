// SPDX-License-Identifier: Apache-2.0

package syncing_test

import (
	"os"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	fleettest.AtOnce(3)
	os.Exit(fleettest.Main(m, fleettest.NoLeaks(
		// A metadata watch that is stopped while it sends an event that no receiver reads: one per hub that ends
		// (controller-runtime, newGVKFixupWatcher).
		goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"))))
}

var must, eventually = testkit.Must, testkit.Eventually

// clusters starts API servers with an audit log.
func clusters(t *testing.T, names ...string) []*fleet.Cluster {
	t.Helper()
	f := fleettest.New(t, fleet.Options{Audit: true})
	all, errs := make([]*fleet.Cluster, len(names)), make([]error, len(names))
	var starting sync.WaitGroup
	for i, name := range names {
		starting.Go(func() { all[i], errs[i] = f.Create(t.Context(), name) })
	}
	starting.Wait()
	for _, err := range errs {
		must(t, err)
	}
	return all
}

func namespace(t testing.TB, c client.Client, name string) {
	t.Helper()
	must(t, client.IgnoreAlreadyExists(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})))
}

// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// deadlock is a transport that blocks every write of the status of a Cluster until release, and ignores the context: it
// deadlocks the reconciler of Clusters.
type deadlock struct {
	next    http.RoundTripper
	release <-chan struct{}
}

// RoundTrip sends the request, or waits.
func (d *deadlock) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "/clusters/") && strings.HasSuffix(r.URL.Path, "/status") {
		<-d.release
	}
	return d.next.RoundTrip(r)
}

// A hub whose reconcilers are deadlocked while work waits fails /healthz, names the controller and loses its lease, and the
// standby takes over.
func TestRun_DeadlockedReconciler(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	o := withReplicas(h.options(), "stuck")
	o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &deadlock{next, release} })
	o.Log = logr.Discard() // The reconciler logs when it continues, after the test.
	o.StuckAfter, o.Concurrency, o.HealthAddress = 3*time.Second, 1, fleettest.FreeAddress(t)
	o.LeaveTimeout = time.Second
	o.Registry.Limits.StopTimeout = 100 * time.Millisecond
	p := h.run(o)
	h.expectHolders("stuck")
	h.register("edge-1", []byte("no kubeconfig"))
	h.register("edge-2", []byte("no kubeconfig"))
	eventually(t, func() error { return get(t, o.HealthAddress, "healthz", http.StatusInternalServerError) })
	_, body, err := fetch(t, "http://"+o.HealthAddress+"/healthz/progress")
	if err != nil || !strings.Contains(body, "no progress for 3s: controller cluster") {
		t.Errorf("/healthz/progress returns %q, want the name of the controller, %v", body, err)
	}

	h.run(withReplicas(h.options(), "standby"))
	h.expectHolders("standby")
	if err := p.stop(); err == nil {
		t.Error("a hub whose reconcilers do not stop ends without an error")
	}
}

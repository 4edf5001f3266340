// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
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

// A hub whose reconcilers are deadlocked fails /healthz, names the controller at /healthz/heartbeats and loses its
// lease, and the standby takes over. The hub ends, because the reconcilers do not stop.
func TestRun_DeadlockedReconciler(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	o := app.WithHeartbeat(h.options(), time.Second)
	o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &deadlock{next, release} })
	o.Log = logr.Discard() // The reconciler logs when it continues, after the test.
	o.Election, o.Concurrency, o.HealthAddress = fast(), 1, fleettest.FreeAddress(t)
	o.Registry.Limits.StopTimeout = 100 * time.Millisecond
	p := h.run(o)
	var first string
	eventually(t, func() (err error) {
		if first, err = h.holder(t.Context()); first == "" {
			return errors.Join(errors.New("the lease has no holder"), err)
		}
		return nil
	})
	h.register("edge-1", []byte("no kubeconfig"))
	eventually(t, func() error { return get(t, o.HealthAddress, "healthz", http.StatusInternalServerError) })
	_, body, err := fetch(t, "http://"+o.HealthAddress+"/healthz/heartbeats")
	if err != nil || !strings.Contains(body, "no progress for 3s: controller cluster") {
		t.Errorf("/healthz/heartbeats returns %q, want the name of the controller, %v", body, err)
	}

	standby := h.options()
	standby.Election = fast()
	h.run(standby)
	eventually(t, func() error {
		if holder, err := h.holder(t.Context()); holder == first || holder == "" {
			return errors.Join(fmt.Errorf("the lease is held by %q", holder), err)
		}
		return nil
	})
	<-p.done // Run has a bound for each of its waits.
	testkit.ErrorHas(t, p.err, "the hub lost its lease", "the hub")
}

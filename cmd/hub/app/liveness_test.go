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
	"github.com/onsi/gomega"

	"github.com/clusterfx/clusterfx/cmd/hub/app"
)

// deadlock is a transport in which every write of the status of a Cluster waits for release, whatever its context
// says: it deadlocks the reconciler of Clusters.
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

// A hub whose reconcilers are deadlocked fails /healthz and no longer renews its lease, so the standby takes over. The
// hub ends, since something of it does not stop.
func TestRun_DeadlockedReconciler(t *testing.T) {
	h := newHub(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	o := app.WithHeartbeat(h.options(), time.Second)
	o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &deadlock{next, release} })
	o.Log = logr.Discard() // What is left behind logs when it goes on, after the test.
	o.Election, o.Concurrency, o.HealthAddress = fast(), 1, freeAddress(t)
	o.Registry.Limits.StopTimeout = 100 * time.Millisecond
	p := h.run(o)
	var first string
	soon(t, func() (err error) {
		if first, err = h.holder(t.Context()); first == "" {
			return errors.Join(errors.New("nobody has the lease"), err)
		}
		return nil
	})
	h.register("edge-1", []byte("no kubeconfig"))
	soon(t, func() error { return get(t, o.HealthAddress, "healthz/heartbeats", http.StatusInternalServerError) })

	standby := h.options()
	standby.Election = fast()
	h.run(standby)
	soon(t, func() error {
		if holder, err := h.holder(t.Context()); holder == first || holder == "" {
			return errors.Join(fmt.Errorf("the lease is held by %q", holder), err)
		}
		return nil
	})
	<-p.done // It has a bound for everything that it waits for.
	if err := p.err; err == nil || !strings.Contains(err.Error(), "the hub lost its lease") {
		t.Errorf("the hub ended with %v", err)
	}
}

// soon waits for what takes some seconds, or as many minutes on a machine that is busy: time in which the hub gets no CPU
// does not count for heartbeats.
func soon(t *testing.T, check func() error) {
	t.Helper()
	gomega.NewWithT(t).Eventually(check).WithTimeout(5 * time.Minute).WithPolling(20 * time.Millisecond).Should(gomega.Succeed())
}

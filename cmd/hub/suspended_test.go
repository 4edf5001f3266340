// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"slices"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// A hub that is alone stands still for a while, as on a machine that sleeps. When it goes on it takes
// none of its remotes for unreachable because of that, and starts nothing anew. (F50)
func TestRun_Suspended(t *testing.T) {
	t.Parallel()
	suspended := 20 * time.Second
	if allFaults() {
		suspended = time.Minute
	}
	l := startLone(t, fleettest.New(t, fleet.Options{Audit: true}), "suspended")
	l.signal(syscall.SIGSTOP)
	pause(suspended)
	resumed := time.Now()
	l.signal(syscall.SIGCONT)
	l.expectWrite(resumed)
	t.Logf("the remote was written to %s after a suspension of %s", time.Since(resumed).Round(time.Millisecond), suspended)
	pause(6 * time.Second) // more than a period of the probe
	statuses, err := l.hub.AuditEvents(fleet.Since(resumed), fleet.ByAgent("clusterfx/suspended"), func(e fleet.AuditEvent) bool {
		return e.Object.Resource == "clusters" && e.Object.Subresource == "status"
	})
	must(t, err)
	for _, e := range statuses {
		var written hubv1.Cluster
		must(t, json.Unmarshal(e.Body, &written))
		if slices.ContainsFunc(written.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == hubv1.ConditionReady && c.Status != metav1.ConditionTrue
		}) {
			t.Errorf("the Cluster was taken for not ready: %s", e.Body)
		}
	}
	if epochs := l.writes(); len(epochs) != 1 {
		t.Errorf("the app was started %d times", len(epochs))
	}
	l.signal(syscall.SIGTERM)
	l.expectExit(0)
}

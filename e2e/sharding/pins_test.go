// SPDX-License-Identifier: Apache-2.0

package sharding_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// pin asks for a replica for each Cluster.
func (s *stage) pin(replica string) {
	s.t.Helper()
	for _, name := range s.names {
		eventually(s.t, func() error { // The hub writes, too.
			one := s.cluster(name)
			one.Spec.Runner.MatchLabels = map[string]hubv1.LabelValue{replicaLabel: hubv1.LabelValue(replica)}
			return s.admin.Update(s.t.Context(), one)
		})
	}
}

// expectRunner waits until a replica has reported each Cluster as Ready, and says so many unmet pins.
func (s *stage) expectRunner(replica string, unmet int) {
	s.t.Helper()
	eventually(s.t, func() error {
		if n := len(s.runBy(replica)); n != len(s.names) {
			return fmt.Errorf("%s has reported %d of %d Clusters", replica, n, len(s.names))
		}
		series, err := s.replicas[replica].series("clusterfx_pins_unmet")
		if err != nil || len(series) != 1 {
			return errors.Join(err, fmt.Errorf("%d series of unmet pins", len(series)))
		}
		got := int(series[0].GetGauge().GetValue())
		return errorUnless(got == unmet, "%s says %d unmet pins, want %d", replica, got, unmet)
	})
	s.expectReady()
}

// Clusters run in the replica with the labels that they ask for, in another one while there is none, and there again when it
// returns. No hand-over for a pin has two writers.
func TestSharding_Pins(t *testing.T) {
	t.Parallel()
	s := newStage(t, 4)
	s.startAll("a", "b")
	began := time.Now()
	s.pin("b")
	s.expectRunner("b", 0)
	s.pin("a")
	s.expectRunner("a", 0)
	v := s.judge(began)
	if v.handovers < len(s.names) {
		t.Errorf("%d hand-overs for %d Clusters", v.handovers, len(s.names))
	}
	s.replicas["a"].kill()
	s.expectRunner("b", len(s.names))
	s.start("a")
	s.expectRunner("a", 0)
	s.expectOneWriter(s.judge(began))
}

// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// TestFigure_Rotation measures the time until a new credential is in use. rotate asserts that no informer relists and
// no lease fails.
func TestFigure_Rotation(t *testing.T) {
	fleettest.Slow(t, "nothing: figures are measured on an idle machine")
	s := newStage(t, stageOptions{fleet: fleet.Options{Audit: true}}, calm)
	s.startHub()
	for _, kind := range credentialKinds {
		t.Run(kind.name, func(t *testing.T) {
			took := s.rotate(t, kind, 30)
			f := durations("rotated "+kind.name+" in use, under load", inUseWithin, took)
			f.goal += ", 0 re-lists, 0 failed leases"
			f.measured += ", 0 re-lists, 0 failed leases"
			if t.Failed() {
				f.measured, f.met, f.far = "failed", false, true
			}
			report(t, f)
		})
	}
}

// TestFigure_EndpointChange moves a remote between two addresses under load, and counts failed leases and duplicate
// reconciles.
func TestFigure_EndpointChange(t *testing.T) {
	fleettest.Slow(t, "nothing: figures are measured on an idle machine")
	const changes = 20
	s := newStage(t, stageOptions{}, calm)
	s.startHub()
	r := s.newRemote(t, "moving", s.cluster(calm))
	r.register()
	r.expectReady(patience)
	other := fleettest.Proxy(t, r.on.Server())
	ways := []*fault.Proxy{other, r.proxy}
	finish := r.borrow(t, 4)
	writing := r.keepWriting(t)
	var took []time.Duration
	for i := range changes {
		kubeconfig, err := ways[i%2].Kubeconfig(r.on.Kubeconfig())
		must(t, err)
		epoch := r.epoch()
		must(t, r.storeAsIs(kubeconfig))
		eventually(t, func() error {
			info, _ := s.remotes().Status(registry.ClusterName(r.name))
			if info.Epoch == epoch || info.Reason != state.ReasonReady {
				return fmt.Errorf("epoch %d, %s: %s", info.Epoch, info.Reason, info.Message)
			}
			return nil
		})
		took = append(took, time.Since(r.since))
		r.expectWorking()
	}
	calls := finish()
	writing()
	twice := s.stopwatch.overlaps()
	report(t, figure{
		what: fmt.Sprintf("endpoint change, %d times under load", changes), goal: "0 not-found or not-ready, 0 duplicate reconciles",
		measured: fmt.Sprintf("%d failed of %d leases, %d duplicate reconciles; moved within %s", r.failed(), calls, len(twice), spread(took)),
		met:      r.failed() == 0 && len(twice) == 0,
		far:      r.failed() > 0 || len(twice) > 0,
	})
}

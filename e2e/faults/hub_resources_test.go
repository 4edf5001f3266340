// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// Remotes that are Ready stay Ready if the hub lacks file descriptors, or lacks processor time for a while: F51 and
// F52.
func TestFaults_OfTheHub(t *testing.T) {
	fleettest.Slow(t, "./registry/internal/probe TestRounds_Starved")
	t.Run("too few file descriptors", fewDescriptors)
	t.Run("no time on the processor", noTime)
}

func expectStayedReady(t *testing.T, all []*remote, since time.Time) {
	t.Helper()
	for _, r := range all {
		versions, _ := r.stage.history.since(r.name, since)
		wasReady := false
		for _, v := range versions {
			if v.cluster == nil {
				continue
			}
			if wasReady && !isReady(v.cluster) {
				t.Errorf("%s did not stay Ready: %s", r.name, conditionText(v.cluster))
				break
			}
			wasReady = isReady(v.cluster)
		}
	}
}

// fewDescriptors is a hub with fewer file descriptors than remotes.
func fewDescriptors(t *testing.T) {
	const remotes, descriptors = 80, 64
	s := newStage(t, stageOptions{}, calm)
	p := s.startHubProcess(t, fmt.Sprintf("ulimit -n %d", descriptors))
	began := time.Now()
	all := s.newCrowd(t, crowd{n: remotes, on: []string{calm}, changes: []change{quick}})
	eventually(t, func() error {
		if n := countReady(all); n < descriptors/4 {
			return fmt.Errorf("%d remotes are Ready", n)
		}
		return nil
	})
	waitFor(t, 20*time.Second)
	ready := countReady(all)
	t.Logf("%d of %d remotes are Ready with %d file descriptors", ready, remotes, descriptors)
	if ready == remotes {
		t.Error("all remotes are Ready, want fewer: the hub has enough file descriptors")
	}
	expectStayedReady(t, all, began)
	for _, r := range all[:remotes/2] {
		r.update(func(c *hubv1.ClusterSpec) { c.State = hubv1.ClusterPaused })
	}
	eventually(t, func() error {
		if countReady(all[remotes/2:]) < remotes/2 {
			return errors.New("the waiting remotes are not Ready although others are paused")
		}
		return nil
	})
	p.expectAlive(t)
}

// probed is longer than the time until a failed probe shows in the Cluster.
const probed = 5 * time.Second

// noTime is a hub whose process is busy with other work. For a while the hub ignores failed probes, because it caused
// them itself. It does not ignore them forever, or it would never detect that a remote is down.
func noTime(t *testing.T) {
	const remotes = 20
	s := newStage(t, stageOptions{}, calm)
	p := s.startHubProcess(t, "true", "GOMAXPROCS=1")
	all := s.newCrowd(t, crowd{n: remotes, on: []string{calm}})
	expectAllReady(t, all)
	began := time.Now()
	p.starve(t, burnShortly)
	waitFor(t, probed)
	expectStayedReady(t, all, began)
	ended := p.starve(t, burnLong)
	for _, r := range all {
		r.since = ended
		r.expectReady(recovered)
	}
	p.expectAlive(t)
}

// starve takes the processor time of the hub, and returns when the hub has it again.
func (p *hubProcess) starve(t *testing.T, how syscall.Signal) (ended time.Time) {
	t.Helper()
	must(t, p.cmd.Process.Signal(how))
	waitFor(t, burning[how])
	return time.Now()
}

// waitFor waits for a duration in which no event is expected.
func waitFor(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
}

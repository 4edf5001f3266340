// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// What is wrong with the hub itself must not cost remotes their apps: F51 and F52.
func TestFaults_OfTheHub(t *testing.T) {
	t.Run("too few file descriptors", fewDescriptors)
	t.Run("no time on the processor", noTime)
}

// expectStayedReady fails the test if a remote was Ready and did not stay so.
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

// fewDescriptors is a hub that cannot have as many connections as it has remotes.
func fewDescriptors(t *testing.T) {
	if !everything() {
		t.Skip(isSlow)
	}
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
		t.Error("the hub had enough file descriptors")
	}
	expectStayedReady(t, all, began)
	for _, r := range all[:remotes/2] {
		r.leave()
	}
	eventually(t, func() error {
		if countReady(all[remotes/2:]) < remotes/2 {
			return errors.New("the waiting remotes are not Ready although others were removed")
		}
		return nil
	})
	p.expectAlive(t)
}

// probed is more than the time after which a probe that has failed in vain shows.
const probed = 5 * time.Second

// noTime is a hub whose process computes something else all the time. For a while the hub takes the
// probes that fail upon itself. It does not do so for ever: it would never learn that a remote is gone.
func noTime(t *testing.T) {
	remotes := 20
	if !everything() {
		remotes = 5
	}
	s := newStage(t, stageOptions{}, calm)
	p := s.startHubProcess(t, "true", "GOMAXPROCS=1")
	all := s.newCrowd(t, crowd{n: remotes, on: []string{calm}})
	expectAllReady(t, all)
	began := time.Now()
	p.starve(t, burnShortly)
	waitFor(t, probed)
	expectStayedReady(t, all, began)
	if everything() {
		ended := p.starve(t, burnLong)
		for _, r := range all {
			r.since = ended
			r.expectReady(within(recovered))
		}
	}
	p.expectAlive(t)
}

// starve takes the hub's time, and returns when that is over.
func (p *hubProcess) starve(t *testing.T, how syscall.Signal) (ended time.Time) {
	t.Helper()
	must(t, p.cmd.Process.Signal(how))
	waitFor(t, burning[how])
	return time.Now()
}

// waitFor lets a time pass in which nothing is to happen.
func waitFor(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
}

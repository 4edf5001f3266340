// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// What is wrong with the hub itself must not be said of its remotes: F51 and F52.
func TestFaults_OfTheHub(t *testing.T) {
	if !everything() {
		t.Skip(isSlow)
	}
	t.Run("too few file descriptors", fewDescriptors)
	t.Run("no time on the processor", noTime)
}

// expectNoBlame fails the test if a remote was said not to answer, or was Ready and did not stay so.
func expectNoBlame(t *testing.T, all []*remote, since time.Time) {
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
			reason := conditionReason(v.cluster, hubv1.ConditionReachable, metav1.ConditionFalse)
			if reason != "" {
				t.Errorf("%s was said not to answer: %s", r.name, conditionText(v.cluster))
				break
			}
		}
	}
}

// fewDescriptors is a hub that cannot have as many connections as it has remotes.
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
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	<-ctx.Done()
	ready := countReady(all)
	t.Logf("%d of %d remotes are Ready with %d file descriptors", ready, remotes, descriptors)
	if ready == remotes {
		t.Error("the hub had enough file descriptors")
	}
	expectNoBlame(t, all, began)
	for _, r := range all[:remotes/2] {
		r.leave()
	}
	eventually(t, func() error {
		if countReady(all[remotes/2:]) < remotes/2 {
			return errors.New("those that waited are not Ready though others have left")
		}
		return nil
	})
	p.expectAlive(t)
}

// noTime is a hub whose process computes something else all the time.
func noTime(t *testing.T) {
	const remotes = 20
	s := newStage(t, stageOptions{}, calm)
	p := s.startHubProcess(t, "true", "GOMAXPROCS=1")
	all := s.newCrowd(t, crowd{n: remotes, on: []string{calm}})
	eventually(t, func() error {
		if n := countReady(all); n < remotes {
			return fmt.Errorf("%d remotes are Ready", n)
		}
		return nil
	})
	began := time.Now()
	must(t, p.cmd.Process.Signal(burnSignal))
	ctx, cancel := context.WithTimeout(t.Context(), burning+10*time.Second)
	defer cancel()
	<-ctx.Done()
	expectNoBlame(t, all, began)
	if n := countReady(all); n < remotes {
		t.Errorf("only %d of %d remotes are Ready", n, remotes)
	}
	p.expectAlive(t)
}

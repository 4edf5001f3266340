// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package kind_test

import (
	"testing"
	"time"
)

// TestHub installs a hub, upgrades and disturbs it, and uninstalls it.
func TestHub(t *testing.T) {
	s := newInstallation(t)
	defer s.summary.write(t, s.root)
	for _, step := range []struct {
		name string
		do   func() string // returns a note for the summary
	}{
		{"Three clusters start", s.startClusters},
		{"Images are made and loaded into the management cluster", s.loadImages},
		{"`kubectl apply -k config/default`: two Pods are ready", s.deploy},
		{"`hub register` twice: both remotes are Ready", s.register},
		{"Module inventory: the Nodes of both remotes are counted", s.inventory},
		{"Another image, with a module of one's own, is rolled out", s.upgrade},
		{"Module podcount works in both directions", s.podcount},
		{"`hub rotate`: the old token is refused", s.rotate},
		{"A remote's node is frozen (`docker pause`) and continues", s.freeze},
		{"The working hub is killed (`kill -9`)", s.kill},
		{"Three replicas share the remotes, one is killed, and one of two works again", s.share},
		{"`hub deregister` twice: the remotes are as they were", s.deregister},
		{"`kubectl delete -k`: the management cluster is as it was", s.remove},
	} {
		begin, seen := time.Now(), ""
		ok := t.Run(step.name, func(t *testing.T) {
			s.t = t
			defer s.explain()
			seen = step.do()
		})
		s.summary.step(step.name, time.Since(begin), seen)
		if !ok {
			return
		}
	}
}

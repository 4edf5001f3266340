// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// row is one row of the catalogue of faults.
type row struct {
	// name describes the fault.
	name string
	// run breaks a remote, expects the response that the catalogue describes, repairs the remote, and expects it to
	// recover.
	run func(t *testing.T, s *stage)
}

// Names of the clusters of TestFaults, in addition to the hub.
const (
	// calm has the neighbours, and the remotes whose network is broken.
	calm = "calm"
	// mortal is killed and frozen.
	mortal = "mortal"
	// twin accepts the token wanderer, as calm does.
	twin = "twin"
)

// wanderer is a token that both calm and twin accept as the token of an administrator.
const wanderer = "wanderer-between-two-clusters"

// withWanderer returns the flag with which an API server accepts the token wanderer.
func withWanderer(t *testing.T) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens.csv")
	must(t, os.WriteFile(file, []byte(wanderer+`,wanderer,1,"system:masters"`+"\n"), 0o600))
	return []string{"--token-auth-file=" + file}
}

// TestFaults breaks one remote with the fault of each row. Meanwhile two healthy remotes are under load and must not be
// affected.
func TestFaults(t *testing.T) {
	fleettest.Slow(t, "./reconcilers/cluster TestCluster_EachFailureHasItsReasonAndHealsByItself")
	t.Parallel()
	flags := withWanderer(t)
	s := newStage(t, stageOptions{
		fleet: fleet.Options{Audit: true}, flags: map[string][]string{calm: flags, twin: flags},
		modules: newMisbehaviour().modules,
	}, calm, mortal, twin)
	s.startHub()
	calmOnes := newNeighbours(s, 2, calm)
	t.Run("rows", func(t *testing.T) {
		for _, r := range slices.Concat(apiRows(), outageRows(), credentialRows()) {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				r.play(t, s, calmOnes)
			})
		}
		t.Run("processes", func(t *testing.T) {
			t.Parallel()
			for _, r := range processRows() {
				t.Run(r.name, func(t *testing.T) { r.play(t, s, calmOnes) })
			}
		})
		t.Run("storage", func(t *testing.T) {
			t.Parallel()
			s.startBrittle(t)
			for _, r := range storageRows() {
				t.Run(r.name, func(t *testing.T) { r.play(t, s, calmOnes) })
			}
		})
	})
	for _, one := range s.stopwatch.overlaps() {
		t.Errorf("two epochs reconciled at the same time, or alternately: %s", one)
	}
}

func (r row) play(t *testing.T, s *stage, calm neighbours) {
	t.Helper()
	finish := calm.observe(t)
	r.run(t, s)
	finish()
}

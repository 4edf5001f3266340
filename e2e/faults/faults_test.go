// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// row is one row of the catalogue of faults.
type row struct {
	// ids are those of the catalogue.
	ids string
	// name says what is broken.
	name string
	// slow rows are left out of the fast part.
	slow bool
	// run breaks a remote, expects what the catalogue says, mends it, and expects it to heal.
	run func(t *testing.T, s *stage)
}

// Names of the clusters of TestFaults, beside the hub's.
const (
	// calm has the neighbours, and the remotes whose network is broken.
	calm = "calm"
	// mortal is stopped, killed and frozen.
	mortal = "mortal"
	// twin accepts the tokens of calm.
	twin = "twin"
)

// wanderer is a token that both calm and twin take for the token of an administrator.
const wanderer = "wanderer-between-two-clusters"

// withWanderer returns the flag of an API server that accepts it.
func withWanderer(t *testing.T) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens.csv")
	must(t, os.WriteFile(file, []byte(wanderer+`,wanderer,1,"system:masters"`+"\n"), 0o600))
	return []string{"--token-auth-file=" + file}
}

// TestFaults breaks one remote in every way there is, while two healthy ones are under load, which must
// notice nothing.
func TestFaults(t *testing.T) {
	flags := withWanderer(t)
	s := newStage(t, stageOptions{
		fleet: fleet.Options{Audit: true}, flags: map[string][]string{calm: flags, twin: flags},
		modules: newMisbehaviour().modules,
	}, calm, mortal, twin)
	s.startHub()
	calmOnes := newNeighbours(s, 2, calm)
	t.Run("rows", func(t *testing.T) {
		for _, r := range slices.Concat(connectionRows(), apiRows(), outageRows(), credentialRows()) {
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
		t.Errorf("two epochs worked at the same time, or by turns: %s", one)
	}
}

const isSlow = "is part of make test-faults"

func (r row) play(t *testing.T, s *stage, calm neighbours) {
	t.Helper()
	if r.slow && !everything() {
		t.Skip(isSlow)
	}
	finish := calm.observe(t)
	r.run(t, s)
	finish()
}

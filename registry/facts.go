// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/preflight"
	"github.com/clusterfx/clusterfx/registry/state"
)

// fact is one thing that the registry has learned about a remote: probeFact, trialFact or one of the types below.
// Facts are values, so that a history of facts can be logged and replayed.
type fact interface {
	applyTo(m *machine, now time.Time)
}

// surveyed is the result of a preflight on the connection to an endpoint.
type surveyed struct {
	endpoint string
	result   *preflight.Result
}

// swapFailed means that a connection could not use a new credential and uses the one before.
type swapFailed struct {
	endpoint string
	before   string // the credential in use
	why      state.Condition
}

// appBuilt means that an app was built, and counts the cleanup steps of its modules.
type appBuilt struct {
	epoch int64
	steps int
}

// appReady means that an app has its initial objects.
type appReady struct{ epoch int64 }

// appWaiting says what a starting app waits for.
type appWaiting struct {
	epoch   int64
	waiting state.Condition
}

// appEnded means that an app ended by itself.
type appEnded struct {
	epoch int64
	why   failure
}

// appYielded means that the controllers of an app have ended, so that the next app can replace it.
type appYielded struct{ epoch int64 }

// appCleaned means that the cleanup steps of an app have ended.
type appCleaned struct{ epoch int64 }

// appGone means that a stopped app has ended or was left behind as a zombie.
type appGone struct{ epoch int64 }

// zombiesChanged means that an app was left behind (1) or that a zombie has ended (-1).
type zombiesChanged struct{ by int }

func (f probeFact) applyTo(m *machine, now time.Time) { m.applyProbe(f, now) }
func (f trialFact) applyTo(m *machine, now time.Time) { m.applyTrial(f, now) }
func (f surveyed) applyTo(m *machine, _ time.Time)    { m.applySurvey(f.endpoint, f.result) }
func (f swapFailed) applyTo(m *machine, now time.Time) {
	m.applySwapFailed(f.endpoint, f.before, f.why, now)
}
func (f appBuilt) applyTo(m *machine, _ time.Time)       { m.applyBuilt(f.epoch, f.steps) }
func (f appReady) applyTo(m *machine, now time.Time)     { m.applyReady(f.epoch, now) }
func (f appWaiting) applyTo(m *machine, _ time.Time)     { m.applyWaiting(f.epoch, f.waiting) }
func (f appEnded) applyTo(m *machine, now time.Time)     { m.applyEnded(f.epoch, f.why, now) }
func (f appYielded) applyTo(m *machine, _ time.Time)     { m.applyYielded(f.epoch) }
func (f appCleaned) applyTo(m *machine, _ time.Time)     { m.applyCleaned(f.epoch) }
func (f appGone) applyTo(m *machine, _ time.Time)        { m.applyGone(f.epoch) }
func (f zombiesChanged) applyTo(m *machine, _ time.Time) { m.zombies += f.by }

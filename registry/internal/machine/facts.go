// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"time"

	"github.com/clusterfx/clusterfx/registry/state"
)

// Fact is what the registry has learned about a remote: Probed, Tried or a type of this file. Facts are values, so that
// histories can be replayed.
type Fact interface {
	applyTo(m *Machine, now time.Time)
}

// PreflightDone is the result of a preflight on the connection to an endpoint.
type PreflightDone struct {
	Endpoint string
	Result   *PreflightResult
}

// SwapFailed means that a connection uses the old credential, since it could not use the new one.
type SwapFailed struct {
	Endpoint string
	Before   string // the credential in use
	Why      state.Condition
}

// AppBuilt means that an app was built, and counts the cleanup steps of its modules.
type AppBuilt struct {
	Epoch int64
	Steps int
}

// AppReady means that an app has its initial objects.
type AppReady struct{ Epoch int64 }

// AppWaiting describes the reason why an app has not started yet.
type AppWaiting struct {
	Epoch   int64
	Waiting state.Condition
}

// AppEnded means that an app ended by itself. Refused: perhaps because the gate refused a write.
type AppEnded struct {
	Epoch   int64
	Why     Failure
	Refused bool
}

// AppYielded means that the controllers of an app have ended, so that the next app can replace it.
type AppYielded struct{ Epoch int64 }

// AppCleaned means that the cleanup steps of an app have ended.
type AppCleaned struct{ Epoch int64 }

// AppGone means that a stopped app has ended or was left behind as a zombie.
type AppGone struct{ Epoch int64 }

// ZombiesChanged means that an app was left behind (1) or that a zombie has ended (-1).
type ZombiesChanged struct{ By int }

func (f Probed) applyTo(m *Machine, now time.Time)      { m.applyProbe(f, now) }
func (f Tried) applyTo(m *Machine, now time.Time)       { m.applyTrial(f, now) }
func (f PreflightDone) applyTo(m *Machine, _ time.Time) { m.applyPreflight(f.Endpoint, f.Result) }
func (f SwapFailed) applyTo(m *Machine, now time.Time) {
	m.applySwapFailed(f.Endpoint, f.Before, f.Why, now)
}
func (f AppBuilt) applyTo(m *Machine, _ time.Time)       { m.applyBuilt(f.Epoch, f.Steps) }
func (f AppReady) applyTo(m *Machine, now time.Time)     { m.applyReady(f.Epoch, now) }
func (f AppWaiting) applyTo(m *Machine, _ time.Time)     { m.applyWaiting(f.Epoch, f.Waiting) }
func (f AppEnded) applyTo(m *Machine, now time.Time)     { m.applyEnded(f, now) }
func (f AppYielded) applyTo(m *Machine, _ time.Time)     { m.applyYielded(f.Epoch) }
func (f AppCleaned) applyTo(m *Machine, _ time.Time)     { m.applyCleaned(f.Epoch) }
func (f AppGone) applyTo(m *Machine, _ time.Time)        { m.applyGone(f.Epoch) }
func (f ZombiesChanged) applyTo(m *Machine, _ time.Time) { m.Zombies += f.By }

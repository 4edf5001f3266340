// SPDX-License-Identifier: Apache-2.0

package state

import "time"

// HubPartStatus is the state of a hub part in this process.
type HubPartStatus struct {
	Module string
	// State is ModuleStarting, ModuleStandby, ModuleWaiting, ModuleRunning, ModuleDegraded, ModuleFailed or ModuleStopped.
	State string
	// Reason and Message say why the hub part does not run or is degraded.
	Reason, Message string
	// Problem is for advice that is not in Message.
	Problem Problem
	// Since is when State or Reason last changed.
	Since time.Time
	// Restarts counts failures in a row, anew after ten minutes of health.
	Restarts int
	// Zombies counts fenced lives that have not ended within the stop timeout.
	Zombies int
	// Controllers are in the order in which the module added them.
	Controllers []ControllerStatus
}

// ModuleStandby is the healthy state of a hub part while it is not the turn of its replica.
const ModuleStandby = "Standby"

// ReasonStandby is the reason of ModuleStandby.
const ReasonStandby = "Standby"

// ModuleDegraded is the state of a hub part that runs and lacks something that it needs.
const ModuleDegraded = "Degraded"

// SPDX-License-Identifier: Apache-2.0

package state

import "time"

// HubPartStatus is the state of the hub part of one module in this process.
type HubPartStatus struct {
	// Module is the module's name.
	Module string
	// State is ModuleStarting, ModuleStandby, ModuleWaiting, ModuleRunning, ModuleDegraded, ModuleFailed or ModuleStopped.
	State string
	// Reason and Message say why the hub part does not run or is degraded.
	Reason, Message string
	// Problem identifies the problem, for advice that is not in Message.
	Problem Problem
	// Since is when State or Reason last changed.
	Since time.Time
	// Restarts counts failures in a row. A failure after ten minutes of health starts the count again.
	Restarts int
	// Zombies counts earlier lives that have not ended within the stop timeout. They are fenced.
	Zombies int
	// Controllers are the controllers that the module has added to its manager, in that order.
	Controllers []ControllerStatus
}

// ModuleStandby is the state of a hub part that runs in the replica which leads, in a replica that does not lead. It is as it
// should be.
const ModuleStandby = "Standby"

// ReasonNotLeader is the reason of ModuleStandby.
const ReasonNotLeader = "NotLeader"

// ModuleDegraded is the state of a hub part that runs and lacks something that it needs.
const ModuleDegraded = "Degraded"

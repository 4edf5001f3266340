// SPDX-License-Identifier: Apache-2.0

/*
Package lock has the type of package guard's locks, for the status of a kind of your own. It imports apimachinery only, so
that an API does not depend on a controller.

	type TunnelStatus struct {
		// +listType=map
		// +listMapKey=type
		Conditions []metav1.Condition `json:"conditions,omitempty"`
		// +listType=map
		// +listMapKey=type
		Locks []lock.Record `json:"locks,omitempty"`
	}

Both lists must have the markers: without them a write of one condition or lock removes all others.
*/
package lock

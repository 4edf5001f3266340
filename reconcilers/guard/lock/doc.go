// SPDX-License-Identifier: Apache-2.0

/*
Package lock contains the type of the locks of package guard, for the status of a kind of your own.

It is a separate package, and imports apimachinery only, so that the Go types of an API do not depend on a controller.
In the status of the kind, which is a subresource:

	type TunnelStatus struct {
		// +listType=map
		// +listMapKey=type
		Conditions []metav1.Condition `json:"conditions,omitempty"`
		// +listType=map
		// +listMapKey=type
		Locks []lock.Record `json:"locks,omitempty"`
	}

Both lists need the markers. Without them a write of one condition or lock removes all others.
*/
package lock

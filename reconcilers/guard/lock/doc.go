// SPDX-License-Identifier: Apache-2.0

/*
Package lock has the type that a kind of your own keeps the locks of package guard in.

It is a package by itself, and imports apimachinery only, so that the Go types of an API do not depend on
a controller. In the status of the kind, which is a subresource:

	type TunnelStatus struct {
		// +listType=map
		// +listMapKey=type
		Conditions []metav1.Condition `json:"conditions,omitempty"`
		// +listType=map
		// +listMapKey=type
		Locks []lock.Record `json:"locks,omitempty"`
	}

Both lists need the markers. Without them one condition or lock that is written takes the others with it.
*/
package lock

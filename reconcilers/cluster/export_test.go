// SPDX-License-Identifier: Apache-2.0

package cluster

// Remotes is the part of the registry that the reconciler uses.
type Remotes = remotes

// SetupWith is Setup with another registry for the reconciler than that of its events.
func SetupWith(p Params, r Remotes) error { return setup(p, r) }

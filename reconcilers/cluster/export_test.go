// SPDX-License-Identifier: Apache-2.0

package cluster

// Remotes is the part of the registry that the reconciler uses.
type Remotes = remotes

// SetupWith is Setup with one registry for the reconciler and another registry for its events.
func SetupWith(p Params, r Remotes) error { return setup(p, r) }

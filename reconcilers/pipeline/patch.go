// SPDX-License-Identifier: Apache-2.0

package pipeline

// Patch is what a Planner decides to change: up to one change of each kind. Whether a change was set
// decides, not its value: a nil that was set is applied. The zero Patch changes nothing, as a nil one.
type Patch[C any] struct {
	create, update, remove *C
}

// SetCreateChange makes Applier.ApplyCreateChange be called with the change.
func (p *Patch[C]) SetCreateChange(change C) { p.create = &change }

// SetUpdateChange makes Applier.ApplyUpdateChange be called with the change.
func (p *Patch[C]) SetUpdateChange(change C) { p.update = &change }

// SetDeleteChange makes Applier.ApplyDeleteChange be called with the change.
func (p *Patch[C]) SetDeleteChange(change C) { p.remove = &change }

// SPDX-License-Identifier: Apache-2.0

package pipeline

// Patch contains the changes that a Planner has decided on: up to one change of each kind. A change is applied if it was
// set, whatever its value: a nil that was set is applied. The zero Patch and a nil Patch change nothing.
type Patch[C any] struct {
	create, update, remove *C
}

// SetCreateChange makes Applier.ApplyCreateChange be called with the change.
func (p *Patch[C]) SetCreateChange(change C) { p.create = &change }

// SetUpdateChange makes Applier.ApplyUpdateChange be called with the change.
func (p *Patch[C]) SetUpdateChange(change C) { p.update = &change }

// SetDeleteChange makes Applier.ApplyDeleteChange be called with the change.
func (p *Patch[C]) SetDeleteChange(change C) { p.remove = &change }

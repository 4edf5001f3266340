// SPDX-License-Identifier: Apache-2.0

package pipeline

// Patch has up to one change of each kind. A change that was set is applied, whatever its value. A zero or nil Patch
// changes nothing.
type Patch[C any] struct {
	create, update, remove *C
}

// SetCreateChange requests Applier.ApplyCreateChange.
func (p *Patch[C]) SetCreateChange(change C) { p.create = &change }

// SetUpdateChange requests Applier.ApplyUpdateChange.
func (p *Patch[C]) SetUpdateChange(change C) { p.update = &change }

// SetDeleteChange requests Applier.ApplyDeleteChange.
func (p *Patch[C]) SetDeleteChange(change C) { p.remove = &change }

// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Redactor replaces the credentials of many remotes in a text, in a time that does not depend on how many those are. It
// is for texts that may be about any of them. The zero value knows none. All methods can be called by anybody.
type Redactor struct {
	mu     sync.RWMutex // protects the fields; held for map operations only
	owners map[string]*known
	// blocks are the parts of all texts that begin at a multiple of blockSize, by their bytes. Each part that Redact
	// replaces has one of them in it.
	blocks map[uint64][]*known
	short  []*known // those with a text that may have no block in it
}

// known is what a Redactor knows of an owner.
type known struct {
	credentials []Credential
	texts       []string
}

// blockSize is chosen so that each part of leastPart bytes has a block in it, and that a block fits into a number.
const blockSize = 6

// Set replaces the credentials of an owner. Without any the owner is forgotten.
func (r *Redactor) Set(owner string, credentials ...Credential) {
	next := &known{credentials: slices.Clone(credentials)}
	for _, c := range credentials {
		next.texts = append(next.texts, c.secret().texts()...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owners == nil {
		r.owners, r.blocks = map[string]*known{}, map[uint64][]*known{}
	}
	if before := r.owners[owner]; before != nil {
		if slices.Equal(before.texts, next.texts) {
			return
		}
		r.remove(before)
		delete(r.owners, owner)
	}
	if len(next.texts) > 0 {
		r.owners[owner] = next
		r.add(next)
	}
}

func (r *Redactor) add(k *known) {
	for _, text := range k.texts {
		if len(text) < leastPart {
			r.short = append(r.short, k)
			continue
		}
		for _, block := range blocksOf(text) {
			if !slices.Contains(r.blocks[block], k) {
				r.blocks[block] = append(r.blocks[block], k)
			}
		}
	}
}

func (r *Redactor) remove(k *known) {
	isK := func(other *known) bool { return other == k }
	r.short = slices.DeleteFunc(r.short, isK)
	for _, text := range k.texts {
		for _, block := range blocksOf(text) {
			left := slices.DeleteFunc(r.blocks[block], isK)
			if r.blocks[block] = left; len(left) == 0 {
				delete(r.blocks, block)
			}
		}
	}
}

// blocksOf returns the blocks of a text that begin at a multiple of their size.
func blocksOf(text string) []uint64 {
	var all []uint64
	text = lower(text)
	for ; len(text) >= blockSize; text = text[blockSize:] {
		all = append(all, blockAt(text))
	}
	return all
}

func blockAt(text string) uint64 {
	var number [8]byte
	copy(number[:blockSize], text)
	return binary.LittleEndian.Uint64(number[:])
}

// Redact replaces each part of one of the credentials in a text, as the function Redact does.
func (r *Redactor) Redact(text string) string {
	text = bounded(text)
	for _, k := range r.candidates(lower(text)) {
		text = Redact(text, k.credentials...)
	}
	return text
}

// candidates returns the owners of which a part may be in a text in lower case.
func (r *Redactor) candidates(text string) []*known {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := map[*known]bool{}
	for _, k := range r.short {
		all[k] = true
	}
	for at := 0; at+blockSize <= len(text) && len(r.blocks) > 0; at++ {
		for _, k := range r.blocks[blockAt(text[at:])] {
			all[k] = true
		}
	}
	return slices.Collect(maps.Keys(all))
}

// maxRedacted is how much of a text Redact reads. What follows is cut off, because it may have a credential in it.
const maxRedacted = 64 << 10

// bounded returns a text, or its beginning if it is longer than maxRedacted.
func bounded(text string) string {
	if len(text) <= maxRedacted {
		return text
	}
	return strings.ToValidUTF8(text[:maxRedacted], "") + "..."
}

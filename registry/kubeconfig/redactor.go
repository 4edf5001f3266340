// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Redactor replaces the credentials of many remotes in a text that may concern any of them, in a time that does not
// depend on their number. The zero value has none. It is safe for many goroutines. A part that more than 16 credentials
// have in common stays if the text has nothing else of them: it is public, such as a JWT's header.
type Redactor struct {
	refresh atomic.Pointer[func()]

	mu     sync.RWMutex // protects the fields; held for map operations only
	owners map[string]known
	texts  map[string]*hidden // by their text
	short  int                // how many of the texts are shorter than leastPart
	// blocks are the parts that begin at a multiple of blockSize, and the last of each text, by their bytes. Each part
	// that Redact replaces contains one.
	blocks map[uint64][]*hidden
}

// Previous credentials may stay valid for some time.
type known struct{ now, before []*hidden }

// hidden is in lower case.
type hidden struct {
	text string
	uses int // in the fields of known
}

const (
	// blockSize: each part of leastPart bytes has a block in it, and a block fits into a number.
	blockSize = 6
	// maxShared texts may have a block that is a secret.
	maxShared = 16
)

// Refresh has f called before each text is read, to set credentials that change without notice, such as a token in a
// file. f must return soon, and not call Redact. The last call wins.
func (r *Redactor) Refresh(f func()) { r.refresh.Store(&f) }

// Set replaces the credentials of an owner; the previous ones stay redacted until the next Set. Without credentials the
// owner is removed.
func (r *Redactor) Set(owner string, credentials ...Credential) {
	var texts []string
	for _, c := range credentials {
		for _, text := range c.secret().parts {
			if len(text) >= leastCredential {
				texts = append(texts, lower(text))
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before, isKnown := r.owners[owner]
	if len(credentials) == 0 {
		r.drop(before)
		delete(r.owners, owner)
		return
	}
	if isKnown && slices.EqualFunc(before.now, texts, func(h *hidden, text string) bool { return h.text == text }) {
		return
	}
	if r.owners == nil {
		r.owners, r.texts, r.blocks = map[string]known{}, map[string]*hidden{}, map[uint64][]*hidden{}
	}
	var next known
	for _, text := range texts {
		next.now = append(next.now, r.use(text))
	}
	for _, h := range before.now {
		next.before = append(next.before, r.use(h.text))
	}
	r.owners[owner] = next
	r.drop(before)
}

func (r *Redactor) use(text string) *hidden {
	h := r.texts[text]
	if h == nil {
		h = &hidden{text: text}
		r.texts[text] = h
		r.add(h)
	}
	h.uses++
	return h
}

func (r *Redactor) drop(k known) {
	for _, h := range slices.Concat(k.now, k.before) {
		if h.uses--; h.uses == 0 {
			delete(r.texts, h.text)
			r.remove(h)
		}
	}
}

func (r *Redactor) add(h *hidden) {
	if len(h.text) < leastPart {
		r.short++
		return
	}
	for _, block := range blocksOf(h.text) {
		r.blocks[block] = append(r.blocks[block], h)
	}
}

func (r *Redactor) remove(h *hidden) {
	if len(h.text) < leastPart {
		r.short--
		return
	}
	for _, block := range blocksOf(h.text) {
		all := r.blocks[block]
		last := len(all) - 1
		all[slices.Index(all, h)], all[last] = all[last], nil
		if r.blocks[block] = all[:last]; last == 0 {
			delete(r.blocks, block)
		}
	}
}

// blocksOf includes the last block.
func blocksOf(text string) []uint64 {
	all := []uint64{blockAt(text[len(text)-blockSize:])}
	for ; len(text) >= blockSize; text = text[blockSize:] {
		all = append(all, blockAt(text))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func blockAt(text string) uint64 {
	var number [8]byte
	copy(number[:blockSize], text)
	return binary.LittleEndian.Uint64(number[:])
}

// Redact replaces each part of one of the credentials in a text, as the function Redact does.
func (r *Redactor) Redact(text string) string {
	if refresh := r.refresh.Load(); refresh != nil {
		(*refresh)()
	}
	text = bounded(text)
	for _, one := range r.candidates(lower(text)) {
		text = redact(text, one)
	}
	return text
}

// candidates are the longest first.
func (r *Redactor) candidates(text string) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.texts) == 0 {
		return nil
	}
	all := map[string]bool{}
	for at := 0; at+blockSize <= len(text); at++ {
		if of := r.blocks[blockAt(text[at:])]; len(of) <= maxShared {
			for _, h := range of {
				all[h.text] = true
			}
		}
		for end := at + leastCredential; r.short > 0 && end < at+leastPart && end <= len(text); end++ {
			if h := r.texts[text[at:end]]; h != nil {
				all[h.text] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
}

// maxRedacted: the rest of a text is cut, because it may contain a credential.
const maxRedacted = 64 << 10

func bounded(text string) string {
	if len(text) <= maxRedacted {
		return text
	}
	return strings.ToValidUTF8(text[:maxRedacted], "") + "..."
}

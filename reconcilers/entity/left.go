// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"encoding/json"
	"hash/maphash"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// maxLeft bounds memory. A dropped one costs a request that changes nothing.
const maxLeft = 10_000

// leftovers are what the API server left beside the last apply; see fieldset.More.
type leftovers struct {
	all  *lru.Cache // of leftover
	seed maphash.Seed
}

func newLeftovers() leftovers { return leftovers{all: lru.New(maxLeft), seed: maphash.MakeSeed()} }

type leftover struct {
	sent, more uint64 // digests
	made       string // resourceVersion of the apply
}

// has reports whether the API server left this, at this resourceVersion, when these fields were sent.
func (l leftovers) has(key types.NamespacedName, sent, more map[string]any, revision string) bool {
	if more == nil {
		return true
	}
	known, _ := l.all.Get(key)
	last, ok := known.(leftover)
	if !ok || last.sent != l.digest(sent) {
		return false
	}
	if last.made == revision {
		last.more = l.digest(more)
		l.all.Add(key, last)
	}
	return last.more == l.digest(more)
}

func (l leftovers) sent(key types.NamespacedName, fields map[string]any, made string) {
	l.all.Add(key, leftover{sent: l.digest(fields), made: made})
}

func (l leftovers) digest(fields map[string]any) uint64 {
	data, err := json.Marshal(fields) // The keys are sorted.
	if err != nil {
		return 1 // Fields that were sent can be encoded.
	}
	return max(maphash.Bytes(l.seed, data), 1)
}

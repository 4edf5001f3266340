// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"strconv"
	"strings"
	"time"
)

// Revision is the sequence number in the stream, which all keys share. 0 is none.
type Revision uint64

// Birth identifies the life of a key by the revision and time of one of its values. Revisions have an order; the time,
// of a clock that may be set back, only tells apart those that a restored bucket uses again.
type Birth struct {
	Revision Revision  `json:"revision"`
	Time     time.Time `json:"time"`
}

// String returns the revision and the time in nanoseconds, as in marks.
func (l Birth) String() string {
	text := strconv.AppendUint(make([]byte, 0, 40), uint64(l.Revision), 10)
	return string(strconv.AppendInt(append(text, '-'), l.Time.UnixNano(), 10))
}

// ParseLife reverses String, and is false for another text.
func ParseLife(text string) (Birth, bool) {
	revision, at, _ := strings.Cut(text, "-")
	r, err := strconv.ParseUint(revision, 10, 64)
	nanoseconds, errTime := strconv.ParseInt(at, 10, 64)
	if err != nil || errTime != nil || r == 0 {
		return Birth{}, false
	}
	l := Birth{Revision: Revision(r), Time: time.Unix(0, nanoseconds).UTC()}
	return l, l.String() == text
}

// Entry is the last value of a key.
type Entry struct {
	Key      string
	Value    []byte // must not be changed
	Revision Revision
	Created  time.Time // of the revision
	// Life is the first value of this life that the process knows.
	Life Birth
	// Marked is the last value in this life with a secondary's mark: Value, unless another client has replaced that.
	Marked []byte
	// before the life began
	marker Marker
}

// Marker is where the life of a key ended: a delete, a purge, or an expiry. The zero Marker is none.
type Marker struct {
	Birth
	purged bool // perhaps by the stream, which marks an expiry like a purge
}

// Includes reports whether a mark's Life may be the entry's: no later marker is known. A later Life, as after a
// restore, proves no other entity.
func (e Entry) Includes(l Birth) bool {
	return l == e.Life || l.Revision > e.marker.Revision
}

// Marker returns the last one known before the entry's life.
func (e Entry) Marker() Marker { return e.marker }

// Operation says how a key has changed.
type Operation uint8

// The first three have the numbers of jetstream.KeyValueOp.
const (
	Put     Operation = iota // the key has a value
	Deleted                  // a marker of a delete
	Purged                   // a marker of a purge, or of an expiry with LimitMarkerTTL; see Proves
	Missing                  // a list lacks the key, and no marker was seen
)

// Change is a change of a key.
type Change struct {
	Key       string
	Operation Operation
	Revision  Revision // 0 for Missing
	Listed    bool     // found by a list
}

// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"strconv"
	"strings"
	"time"
)

// Revision is a revision of a bucket: the sequence number of its stream, which all keys share. 0 is no revision.
type Revision uint64

// Life identifies the life of a key between its creation and its deletion, by the revision and the time of one of its values. Revisions
// have an order; the time, of a clock that may be set back, only distinguishes those that a restored bucket uses again.
type Life struct {
	Revision Revision
	Time     time.Time
}

// String returns the life as it is written in marks: the revision and the time in nanoseconds.
func (l Life) String() string {
	text := strconv.AppendUint(make([]byte, 0, 40), uint64(l.Revision), 10)
	return string(strconv.AppendInt(append(text, '-'), l.Time.UnixNano(), 10))
}

// ParseLife returns the life that String has written, and false for another text.
func ParseLife(text string) (Life, bool) {
	revision, at, _ := strings.Cut(text, "-")
	r, err := strconv.ParseUint(revision, 10, 64)
	nanoseconds, errTime := strconv.ParseInt(at, 10, 64)
	if err != nil || errTime != nil || r == 0 {
		return Life{}, false
	}
	l := Life{Revision: Revision(r), Time: time.Unix(0, nanoseconds).UTC()}
	return l, l.String() == text
}

// Entry is the last value of a key.
type Entry struct {
	Key      string
	Value    []byte // must not be changed
	Revision Revision
	Created  time.Time // of the revision
	// Life is the first value in the life of the key that this process knows of.
	Life Life
	// Marked is the last value in this life with the mark of a secondary. It is Value, unless another client has replaced that.
	Marked []byte
	// marker is the last marker that is known, before the life began.
	marker Marker
}

// Marker is where the life of a key ended: it was deleted or purged, or its value has expired. The zero Marker is none.
type Marker struct {
	Life
	// purged says that the stream may have written it, which marks an expiry like a purge.
	purged bool
}

// Includes reports whether a Life, of the mark of a secondary, may be that of the entry: no marker of a later revision is known. A Life
// that is later than the entry, as in a bucket that was restored, is no proof of another entity.
func (e Entry) Includes(l Life) bool {
	return l == e.Life || l.Revision > e.marker.Revision
}

// Marker returns the last marker that is known before the life of the entry.
func (e Entry) Marker() Marker { return e.marker }

// Operation says how a key has changed.
type Operation uint8

// The operations. The first three have the numbers of jetstream.KeyValueOp.
const (
	// Put means that the key has a value.
	Put Operation = iota
	// Deleted means that a marker of a delete was seen.
	Deleted
	// Purged means that a marker of a purge was seen, or of a value that has expired in a bucket with LimitMarkerTTL; see Proves.
	Purged
	// Missing means that a list lacks the key, and that no marker was seen.
	Missing
)

// Change is a change of a key.
type Change struct {
	Key       string
	Operation Operation
	Revision  Revision // of the value or the marker; 0 for Missing
	Listed    bool     // the change was found by a list
}

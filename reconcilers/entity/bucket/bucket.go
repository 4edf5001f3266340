// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go/jetstream"
)

// The intervals of a Bucket. A deaf watch is found within fifteen seconds, at the price of a message of 40 bytes each five.
const (
	defaultBeat    = 5 * time.Second
	beatsMissed    = 3
	minPause       = time.Second
	maxPause       = 30 * time.Second
	requestTimeout = 5 * time.Second
	connectedEvery = 200 * time.Millisecond
	saveEvery      = time.Minute
	// beatsListed is after how many beats a bucket is listed again in which values expire without a marker: each minute.
	beatsListed = 12
)

var (
	// ErrInvalidOptions is the error of Options that cannot be used.
	ErrInvalidOptions = errors.New("invalid options of a bucket")
	// ErrNotFound is the error of a key that has no value.
	ErrNotFound = errors.New("the key does not exist")
	// ErrConflict is the error of a write to a key that has another revision than expected.
	ErrConflict = errors.New("the key has changed since it was read")
	// ErrNotComplete is the error of a question that needs a complete and current copy of the bucket.
	ErrNotComplete = errors.New("the bucket is not read completely")
	// ErrNoServer is the error of a hub that has no server.
	ErrNoServer = errors.New("the hub has no NATS server")
	// ErrChanged is the error of a question that needs the bucket of before, which was recreated or restored.
	ErrChanged = errors.New("the bucket was recreated or restored, and is not accepted yet")
	// ErrRefused is the error of a write that is not sent, because the server has refused another one a moment before.
	ErrRefused = errors.New("the server refuses writes to the bucket")

	errDeaf   = errors.New("no canary was seen through the watch")
	errClosed = errors.New("the watch has ended")

	errReconnected = errors.New("the connection was lost and made again")
	errBackwards   = errors.New("a canary is older than the one before")
	errReplaced    = errors.New("the canary is refused: the bucket was created again")

	errElsewhere = errors.New("it does not continue the identity that another process has saved")
	errVanished  = errors.New("the bucket has been there before, and does not exist; create it, or restore it from a backup")
)

// Options describe a Bucket. Name, JetStream and Writer are required.
type Options struct {
	// Name is the name of the bucket.
	Name string
	// JetStream returns the connection, or an error while there is none. Its reconnect buffer must be off
	// (nats.ReconnectBufSize(-1)): otherwise a write of a hub that has lost its lease is delivered after the connection has come
	// back.
	JetStream func() (jetstream.JetStream, error)
	// Writer identifies the hub: it is the UID of the namespace kube-system of its cluster.
	Writer string
	// Gate returns an error if this process must not write, as without the lease of the hub. It is called right before each
	// write. Default: the process writes.
	Gate func() error
	// Anchor remembers the identity of the bucket beyond the life of the process. Default: none, so a bucket that was replaced
	// while the process did not run is not recognized, and one that was replaced while it ran is not accepted before it ends.
	Anchor Anchor
	// Create creates the bucket if it does not exist and the Anchor does not know it. A bucket that was there before is never
	// created: an empty one would seem to be healthy. Default: false.
	Create bool
	// Disposable says that nothing depends on the identity of the bucket, as for a status, which is written again: it is never
	// Changed, has no Anchor, and Create creates it also if it was there before. The copy has what Put has written at once, without the
	// time of the server. Default: false.
	Disposable bool
	// Beat is the interval of canaries. Default: five seconds.
	Beat time.Duration
	// Logger logs losses and returns. Default: none.
	Logger logr.Logger
}

// Bucket is the copy of a bucket. Make one with New; Run keeps it up to date.
type Bucket struct {
	options Options

	mu       sync.Mutex // protects what follows
	held     held
	health   Health
	seen     time.Time // when the last canary was seen, or the list was complete
	last     Identity  // the highest that was seen of the bucket of before
	hasLast  bool
	agreed   time.Time // when an operator accepted the bucket last, as it was known when it was listed
	beat     canary    // as it was seen last
	beatAt   Revision  // its revision
	saved    time.Time
	watchers map[int]func(Change)
	nextID   int

	refused, canaryRefused refusal

	losses int // of the watch
	kv     jetstream.KeyValue
	kvOf   jetstream.JetStream // the connection of kv

	notify sync.Mutex // is held while watchers are called, so that all see the changes in their order
}

// Health is how far the copy can be trusted.
type Health struct {
	// Complete says that all keys have been read since the last loss.
	Complete bool
	// Changed says that the bucket was recreated or restored, and is not accepted yet.
	Changed bool
	// Err is the reason of the last loss, and nil while the bucket is followed.
	Err error
	// Since is the time of the last change of the other fields.
	Since time.Time
	// Refused is why the server refuses values or canaries, as in a full account or without a permission; nil if it does not.
	Refused error
	// Identity is that of the bucket as it was read last.
	Identity Identity
	// InvalidKeys is how many keys have a value that are no keys of entities: somebody has written them as subjects of NATS, and no
	// client could delete them. They are not followed.
	InvalidKeys int
}

var validName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// New returns an empty Bucket. It sends no requests.
func New(o Options) (*Bucket, error) {
	switch {
	case !validName.MatchString(o.Name):
		return nil, fmt.Errorf("%w: the name %q: letters, digits, - and _", ErrInvalidOptions, o.Name)
	case o.JetStream == nil, o.Writer == "":
		return nil, fmt.Errorf("%w: JetStream and Writer are required", ErrInvalidOptions)
	}
	o.Beat = cmp.Or(o.Beat, defaultBeat)
	if o.Gate == nil {
		o.Gate = func() error { return nil }
	}
	return &Bucket{
		options: o, held: newHeld(), health: Health{Err: ErrNotComplete, Since: time.Now()}, watchers: map[int]func(Change){},
	}, nil
}

// Name returns the name of the bucket.
func (b *Bucket) Name() string { return b.options.Name }

// Health returns how far the copy can be trusted.
func (b *Bucket) Health() Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.health
	h.InvalidKeys, h.Refused = len(b.held.invalid), b.canaryRefused.err
	if h.Refused == nil && time.Since(b.refused.until) < refusalLasts {
		h.Refused = b.refused.err
	}
	return h
}

// Losses returns how often the watch was lost since the process began.
func (b *Bucket) Losses() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.losses
}

// Get returns the last known value of a key.
func (b *Bucket) Get(key string) (Entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.held.entries[key]
	return e, ok
}

// Keys returns all keys that are known to have a value, in no order.
func (b *Bucket) Keys() []string {
	all, _ := b.List() // There may be others.
	return all
}

// Len returns how many keys have a value.
func (b *Bucket) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.held.entries)
}

// Marker returns the marker of a key that was deleted or purged, or that has expired with a marker.
func (b *Bucket) Marker(key string) (Marker, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, exists := b.held.entries[key]; exists {
		return Marker{}, false
	}
	m, ok := b.held.markers[key]
	return m, ok
}

// Absent returns nil if a key has no value in a complete and current copy of the bucket of before. Otherwise the error wraps
// ErrNotComplete or ErrChanged, or says that the key exists.
func (b *Bucket) Absent(key string) error {
	switch _, err := b.Find(key); {
	case err == nil:
		return fmt.Errorf("key %s exists in bucket %s", key, b.options.Name)
	case !errors.Is(err, ErrNotFound):
		return err
	}
	return nil
}

// Find returns the last known value of a key. The error wraps ErrNotFound only if a complete and current copy of the bucket of before
// has none, and otherwise ErrNotComplete or ErrChanged: the key may exist.
func (b *Bucket) Find(key string) (Entry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.held.entries[key]
	if ok {
		return e, nil
	}
	return e, cmp.Or(b.partial(), fmt.Errorf("key %s of bucket %s: %w", key, b.options.Name, ErrNotFound))
}

// List returns all keys that have a value, in no order, and the error of Find if there may be others.
func (b *Bucket) List() ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.held.entries)), b.partial()
}

// partial returns why a key that the copy lacks may exist; nil if it does not. The caller holds the lock.
func (b *Bucket) partial() error {
	switch {
	case !b.health.Complete:
		return fmt.Errorf("bucket %s: %w", b.options.Name, ErrNotComplete)
	case b.health.Changed:
		return fmt.Errorf("bucket %s: %w", b.options.Name, ErrChanged)
	case time.Since(b.seen) > beatsMissed*b.options.Beat:
		return fmt.Errorf("bucket %s: %w: %w", b.options.Name, ErrNotComplete, errDeaf)
	}
	return nil
}

// Subscribe calls f for each change from now on, until the returned function is called. f is called in a goroutine that all
// subscribers share, so it is code of the framework, which must not block, panic or call Subscribe. If the copy is complete, f is
// called for each key that has a value or a marker before Subscribe returns; otherwise when it is. While the bucket is followed, f gets
// each change; after a loss it gets the last change of each key that differs.
func (b *Bucket) Subscribe(f func(Change)) (unsubscribe func()) {
	b.notify.Lock()
	defer b.notify.Unlock()
	b.mu.Lock()
	id := b.nextID
	b.nextID++
	b.watchers[id] = f
	present := make([]Change, 0, len(b.held.entries)+len(b.held.markers))
	for key, e := range b.held.entries {
		present = append(present, Change{Key: key, Operation: Put, Revision: e.Revision, Listed: true})
	}
	for key := range b.held.markers {
		if _, ok := b.held.entries[key]; !ok {
			present = append(present, b.held.lacks(key))
		}
	}
	b.mu.Unlock()
	for _, c := range present {
		f(c)
	}
	return func() {
		b.notify.Lock() // Afterwards f is not called any longer.
		defer b.notify.Unlock()
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.watchers, id)
	}
}

// tell calls all watchers.
func (b *Bucket) tell(all ...Change) {
	if len(all) == 0 {
		return
	}
	b.notify.Lock()
	defer b.notify.Unlock()
	b.mu.Lock()
	watchers := slices.Collect(maps.Values(b.watchers))
	b.mu.Unlock()
	for _, c := range all {
		for _, f := range watchers {
			f(c)
		}
	}
}

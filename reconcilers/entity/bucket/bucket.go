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

// A deaf watch is found within fifteen seconds, at the price of 40 bytes each five, and up to 60 for each of maxResumed.
const (
	defaultBeat    = 5 * time.Second
	beatsMissed    = 3
	minPause       = time.Second
	maxPause       = 30 * time.Second
	requestTimeout = 5 * time.Second
	connectedEvery = 200 * time.Millisecond
	saveEvery      = time.Minute
	beatsListed    = 12 // a bucket whose values expire without a marker is listed each minute
)

var (
	// ErrInvalidOptions means that Options cannot be used.
	ErrInvalidOptions = errors.New("invalid options of a bucket")
	// ErrNotFound means that the key has no value.
	ErrNotFound = errors.New("the key does not exist")
	// ErrConflict means that the key has another revision than expected.
	ErrConflict = errors.New("the key has changed since it was read")
	// ErrUnsent means, for errors of Put and Delete, that nothing was sent. It adds no text.
	ErrUnsent = errors.New("nothing was sent")
	// ErrNotComplete means that the answer needs a complete and current copy.
	ErrNotComplete = errors.New("the bucket is not read completely")
	// ErrNoServer means that the hub has no NATS server.
	ErrNoServer = errors.New("the hub has no NATS server")
	// ErrChanged means that the bucket was recreated or restored.
	ErrChanged = errors.New("the bucket was recreated or restored, and is not accepted yet")
	// ErrRefused means that a write was not sent, because the server has just refused another.
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
	// Name is the bucket's name.
	Name string
	// JetStream returns the connection, or an error. Its reconnect buffer must be off (nats.ReconnectBufSize(-1)):
	// otherwise a write of a hub that has lost its lease is delivered later.
	JetStream func() (jetstream.JetStream, error)
	// Writer identifies the hub: the UID of its namespace kube-system.
	Writer string
	// Gate returns an error if this process must not write. It is asked right before each write. Default: it may.
	Gate func() error
	// Anchor remembers the identity beyond the process. Default: none, so a bucket that was replaced while no process
	// ran is not recognized, and one replaced before cannot be accepted.
	Anchor Anchor
	// Create creates a missing bucket that the Anchor does not know: one that was there before would seem to be
	// healthy, and empty. Default: false.
	Create bool
	// Disposable: nothing depends on the identity, as for a status. Such a bucket is never Changed, has no Anchor,
	// and Create always creates it. Its copy has what Put wrote at once, without the server's time. Default: false.
	Disposable bool
	// Beat is the interval of canaries. Default: five seconds.
	Beat time.Duration
	// Logger logs losses and returns. Default: none.
	Logger logr.Logger
}

// Bucket is the copy of a bucket. Make one with New; Run keeps it up to date.
type Bucket struct {
	options Options

	mu       sync.Mutex
	held     held
	health   Health
	seen     time.Time // the last canary, or the end of the list
	last     Identity  // highest of the bucket of before
	hasLast  bool
	agreed   time.Time // last acceptance known when it was listed
	beat     canary    // seen last
	beatAt   Revision  // its revision
	saved    time.Time
	watchers map[int]func(Change)
	nextID   int

	refused, canaryRefused refusal

	losses int // of the watch
	kv     jetstream.KeyValue
	kvOf   jetstream.JetStream // connection of kv

	notify sync.Mutex // held while watchers are called, so that all see one order
}

// Health is how far the copy can be trusted.
type Health struct {
	// Complete: all keys have been read since the last loss.
	Complete bool
	// Changed: recreated or restored, and not accepted yet.
	Changed bool
	// Err is the reason of the last loss; nil while the bucket is followed.
	Err error
	// Since is when another field changed last.
	Since time.Time
	// Refused is why the server refuses values or canaries, or nil.
	Refused error
	// Identity is as it was read last.
	Identity Identity
	// InvalidKeys counts keys that a client wrote as subjects of NATS, and no client could delete. They are not
	// followed.
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

// Name returns the bucket's name.
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

// Losses counts the losses of the watch in this process.
func (b *Bucket) Losses() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.losses
}

// Get returns the last known value.
func (b *Bucket) Get(key string) (Entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.held.entries[key]
	return e, ok
}

// Keys returns the keys known to have a value, in no order.
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

// Marker returns the marker of a key that was deleted, purged, or has expired with one.
func (b *Bucket) Marker(key string) (Marker, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, exists := b.held.entries[key]; exists {
		return Marker{}, false
	}
	m, ok := b.held.markers[key]
	return m, ok
}

// Absent returns nil if a complete and current copy of the bucket of before has no value. Otherwise the error wraps
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

// Find returns the last known value. The error wraps ErrNotFound only if Absent is nil, else ErrNotComplete or
// ErrChanged.
func (b *Bucket) Find(key string) (Entry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.held.entries[key]
	if ok {
		return e, nil
	}
	return e, cmp.Or(b.partial(), fmt.Errorf("key %s of bucket %s: %w", key, b.options.Name, ErrNotFound))
}

// List returns the keys with a value, in no order, and an error if there may be others.
func (b *Bucket) List() ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.held.entries)), b.partial()
}

// partial says why a key that the copy lacks may exist, or nil. The caller holds the lock.
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

// Subscribe calls f for each change until the returned function is called. If the copy is complete, f first gets each
// key with a value or marker, before Subscribe returns; otherwise when it is. After a loss f gets the last change of
// each key that differs. All subscribers share one goroutine: f must not block, panic or call Subscribe.
func (b *Bucket) Subscribe(f func(Change)) (unsubscribe func()) {
	b.notify.Lock()
	defer b.notify.Unlock()
	b.mu.Lock()
	id := b.nextID
	b.nextID++
	b.watchers[id] = f
	nothing, list := newHeld(), b.held
	list.markers = maps.Clone(list.markers) // It drops some.
	present := nothing.replace(list, true)
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

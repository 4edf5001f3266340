// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Journal keeps on record which apps are being started. What it finds there when a hub starts was
// being started when the last one died.
//
// It keeps records in memory and one goroutine, Start, that writes it: what many apps ask for at
// the same time is one write. The records are written whole, and again until that succeeds. While it
// does not, nobody waits: a hub whose API server is away must not stand still for the sake of its
// records.
type Journal struct {
	log     logr.Logger
	timeout time.Duration // of one attempt to read and write
	ready   chan struct{} // closed when the first attempt to read and write is over
	wake    chan struct{} // capacity 1: due may have changed

	// The writer's own.
	store     configMap
	loaded    bool
	notBefore time.Time // earliest time of the next write

	mu       sync.Mutex // protects the fields below; held for map operations only
	records  records
	attempts map[string]Attempt // what would be started, for each Cluster
	changes  int64              // counts the changes of the records
	kept     int64              // as of which change the records are written
	due      time.Time          // when the records are to be written; zero for not at all
	failure  error              // of the last attempt to write
	turn     chan struct{}      // closed when an attempt is over
	over     bool               // the hub ends
}

const (
	// defaultJournalTimeout bounds one attempt to read and write, and so the time for which an app waits
	// for a hub whose API server is silent.
	defaultJournalTimeout = 3 * time.Second
	// journalRetry is the time between attempts that fail.
	journalRetry = 2 * time.Second
	// journalSpacing is the least time between two writes.
	journalSpacing = 50 * time.Millisecond
	// soon is when a start is on record that nobody else is just starting with; later is for what
	// nobody waits for.
	soon, later = 10 * time.Millisecond, time.Second
	// maxEntries keeps the ConfigMap below the 1 MiB that it may have.
	maxEntries = 2500
)

var (
	errJournalFull = fmt.Errorf("it has %d entries and takes no more", maxEntries)
	errJournalOver = errors.New("the hub is ending")
)

var (
	_ registry.Journal               = (*Journal)(nil)
	_ manager.LeaderElectionRunnable = (*Journal)(nil)
)

// New returns a journal that is kept in a ConfigMap, and adds it to the hub's manager. It sends no
// requests. A hub has one journal for its whole fleet; journals of parts of a fleet need different keys.
func New(mgr ctrl.Manager, key client.ObjectKey) (*Journal, error) {
	j := &Journal{
		log:      mgr.GetLogger().WithName("journal"),
		timeout:  defaultJournalTimeout,
		ready:    make(chan struct{}),
		wake:     make(chan struct{}, 1),
		store:    configMap{writer: mgr.GetClient(), live: mgr.GetAPIReader(), key: key},
		records:  records{},
		attempts: map[string]Attempt{},
		due:      time.Now(), // to be read
		turn:     make(chan struct{}),
	}
	if err := mgr.Add(j); err != nil {
		return nil, fmt.Errorf("add the journal to the manager: %w", err)
	}
	return j, nil
}

// NeedLeaderElection says that only the leader reads and writes the journal, and that its end is on
// record before the lease goes to somebody else.
func (j *Journal) NeedLeaderElection() bool { return true }

// Begin notes that an app is about to start, and returns when the note would survive a crash. It
// fails when ctx ends, when an attempt to write fails, and at once while that was so for the last
// one: 6 s after the call at the latest. The note is then written as soon as that is possible.
func (j *Journal) Begin(ctx context.Context, name registry.ClusterName) error {
	ctx, cancel := context.WithTimeout(ctx, 2*j.timeout) // of an attempt before, and its own
	defer cancel()
	change, err := j.begin(string(name))
	for done := false; err == nil && !done; {
		var turn <-chan struct{}
		if done, turn, err = j.outcome(change); turn != nil {
			select {
			case <-turn:
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("note that the app of %s is being started: %w", name, err)
	}
	return nil
}

func (j *Journal) begin(name string) (change int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over {
		return 0, errJournalOver
	}
	if _, known := j.records[name]; !known && len(j.records) >= maxEntries {
		return 0, fmt.Errorf("ConfigMap %s: %w", j.store.key, errJournalFull)
	}
	j.records.begin(name, j.attempts[name])
	j.changed(soon)
	return j.changes, nil
}

// outcome reports whether a change is on record, or why it is not; otherwise, what to wait for.
func (j *Journal) outcome(change int64) (done bool, turn <-chan struct{}, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.kept >= change:
		return true, nil, nil
	case j.failure != nil:
		return false, nil, j.failure
	case j.over:
		return false, nil, errJournalOver
	}
	return false, j.turn, nil
}

// End notes that an app has proven itself or ended in good order. It does not block.
func (j *Journal) End(name registry.ClusterName) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.records.end(string(name)) {
		j.changed(later)
	}
}

// Suspicion returns what is on record against an app that would be started now. It waits until the
// record has been read, and what it says of the last process been written back, or until that has
// failed; an error means that ctx ended first.
func (j *Journal) Suspicion(ctx context.Context, name string, a Attempt) (state.CrashRecord, error) {
	select {
	case <-j.ready:
	case <-ctx.Done():
		return state.CrashRecord{}, fmt.Errorf("wait for ConfigMap %s: %w", j.store.key, context.Cause(ctx))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.attempts[name] = a
	e := j.records[name]
	if e.Crashes > 0 && e.Tried.UID != "" && e.Tried.UID != a.UID { // It shares no more than its name.
		j.records.acquit(name)
		j.changed(later)
		return state.CrashRecord{}, nil
	}
	return e.suspicion(a), nil
}

// Acquit forgets what is on record against an app.
func (j *Journal) Acquit(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.records.acquit(name) {
		j.changed(later)
	}
}

// Forget forgets a Cluster.
func (j *Journal) Forget(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.attempts, name)
	if _, known := j.records[name]; known {
		delete(j.records, name)
		j.changed(later)
	}
}

// changed has the records written within some time. The caller holds mu.
func (j *Journal) changed(within time.Duration) {
	j.changes++
	at := time.Now().Add(within)
	if j.due.IsZero() || at.Before(j.due) {
		j.due = at
	}
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// Start writes the records whenever it has changed, until ctx ends. What is being started then has not
// crashed the hub, so that nothing is on record as being started when Start returns, if the API
// server can be reached.
func (j *Journal) Start(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			j.close(context.WithoutCancel(ctx))
			return nil
		case <-j.wake:
		case <-timer.C:
		}
		if j.pause() <= 0 {
			j.keep(ctx)
		}
		timer.Reset(j.pause())
	}
}

// idle is how long the writer sleeps while there is nothing to write. Whoever changes the records
// wakes it.
const idle = time.Hour

// pause returns for how long there is nothing to do.
func (j *Journal) pause() time.Duration {
	j.mu.Lock()
	due := j.due
	j.mu.Unlock()
	if due.IsZero() {
		return idle
	}
	if due.Before(j.notBefore) {
		due = j.notBefore
	}
	return time.Until(due)
}

// keep reads what the last process left, if that was not done yet, and writes the records.
func (j *Journal) keep(ctx context.Context) {
	trying, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	err := j.load(trying)
	change, copied := j.snapshot()
	if err == nil && !j.isKept(change) {
		err = j.store.write(trying, copied)
		if errors.Is(err, errOvertaken) { // The hub that leads is right.
			err = j.store.write(trying, copied)
		}
	}
	if ctx.Err() == nil {
		j.tell(j.settle(change, err), err)
	}
}

// load takes over, once, what the last process left.
func (j *Journal) load(ctx context.Context) error {
	if j.loaded {
		return nil
	}
	last, err := j.store.read(ctx)
	if err != nil {
		return err
	}
	j.loaded = true
	j.mu.Lock()
	defer j.mu.Unlock()
	j.records.inherit(last, time.Now().UTC().Truncate(time.Second))
	if !maps.Equal(j.records, last) {
		j.changed(0)
	}
	return nil
}

func (j *Journal) snapshot() (change int64, copied records) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.changes, maps.Clone(j.records)
}

func (j *Journal) isKept(change int64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.kept >= change
}

// settle takes note of how an attempt went, for those who wait. It returns how the one before went.
func (j *Journal) settle(change int64, err error) (before error) {
	pause := journalSpacing
	if err != nil {
		pause = journalRetry
	}
	j.notBefore = time.Now().Add(pause)
	j.mu.Lock()
	defer j.mu.Unlock()
	before, j.failure = j.failure, err
	if err == nil {
		j.kept = change
	}
	if j.kept == j.changes {
		j.due = time.Time{}
	}
	close(j.turn)
	j.turn = make(chan struct{})
	select {
	case <-j.ready:
	default:
		close(j.ready)
	}
	return before
}

// tell logs the first of several failures, and the end of them.
func (j *Journal) tell(before, now error) {
	switch {
	case before == nil && now != nil:
		j.log.Error(now, "It cannot be put on record which apps are being started; they start all the same")
	case before != nil && now == nil:
		j.log.Info("It is put on record again which apps are being started")
	}
}

// close puts on record that nothing is being started any more. It does not insist: another process
// may have written since, if this one has lost its lease.
func (j *Journal) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	j.mu.Lock()
	j.over = true
	for name := range j.records {
		if j.records.end(name) {
			j.changes++
		}
	}
	j.mu.Unlock()
	change, copied := j.snapshot()
	var err error
	if j.loaded && !j.isKept(change) {
		err = j.store.write(ctx, copied)
	}
	if err != nil {
		j.log.Error(err, "It cannot be put on record that the hub ends well; the next one will start with care what this one was starting")
	}
	_ = j.settle(change, err) // Whoever waits is told.
}

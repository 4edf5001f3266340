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

// Journal records which apps are being started. The apps that it finds recorded when a hub starts were
// being started when the last process ended.
//
// It keeps the records in memory and has one goroutine, Start, that writes them: the changes of many apps
// at the same time are one write. The records are written whole, and again until that succeeds. While
// writes fail, no app waits: a hub must not stop starting apps because its API server is unavailable.
type Journal struct {
	log     logr.Logger
	timeout time.Duration // of one attempt to read and write
	ready   chan struct{} // closed when the first attempt to read and write has ended
	wake    chan struct{} // capacity 1: due may have changed

	// Used by the writer's goroutine only.
	store     configMap
	loaded    bool
	notBefore time.Time // earliest time of the next write

	mu       sync.Mutex // protects the fields below; held for map operations only
	records  records
	attempts map[string]Attempt // digests of what would be started, by Cluster
	changes  int64              // counts the changes of the records
	kept     int64              // as of which change the records are written
	due      time.Time          // when the records are to be written; zero for never
	failure  error              // of the last attempt to write
	turn     chan struct{}      // closed when an attempt has ended
	over     bool               // the hub is ending
}

const (
	// defaultJournalTimeout bounds one attempt to read and write, and so the time for which an app waits
	// for a hub whose API server is silent.
	defaultJournalTimeout = 3 * time.Second
	// journalRetry is the time between attempts that fail.
	journalRetry = 2 * time.Second
	// journalSpacing is the least time between two writes.
	journalSpacing = 50 * time.Millisecond
	// soon is the delay of the write for a start, in which other starts join it; later is the delay of writes
	// that no app waits for.
	soon, later = 10 * time.Millisecond, time.Second
	// maxEntries keeps the ConfigMap below its limit of 1 MiB.
	maxEntries = 2500
)

var (
	errJournalFull = fmt.Errorf("full with %d entries", maxEntries)
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

// NeedLeaderElection returns true: only the leader reads and writes the journal, and it records its end before it
// releases the lease.
func (j *Journal) NeedLeaderElection() bool { return true }

// Begin records that an app is about to start, and returns when the record would survive a crash. It
// fails when ctx ends, when an attempt to write fails, and immediately while the last attempt has failed:
// at most 6 s after the call. The record is then written as soon as that is possible.
func (j *Journal) Begin(ctx context.Context, name registry.ClusterName) error {
	ctx, cancel := context.WithTimeout(ctx, 2*j.timeout) // of a previous attempt, and of its own
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
		return fmt.Errorf("record that the app of %s is being started: %w", name, err)
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

// outcome reports whether a change is written, or why it is not, or returns the channel to wait for.
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

// End records that an app has started successfully or has ended in an orderly way. It does not block.
func (j *Journal) End(name registry.ClusterName) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.records.end(string(name)) {
		j.changed(later)
	}
}

// Suspicion returns the recorded crashes of an app that would be started now. It waits until the
// records were read, and the crash of the last process was written, or until that has failed; an error
// means that ctx ended first.
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
	if e.Crashes > 0 && e.Tried.UID != "" && e.Tried.UID != a.UID { // Only the name is the same.
		j.records.acquit(name)
		j.changed(later)
		return state.CrashRecord{}, nil
	}
	return e.suspicion(a), nil
}

// Acquit removes the recorded crashes of an app.
func (j *Journal) Acquit(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.records.acquit(name) {
		j.changed(later)
	}
}

// Forget removes the record of a Cluster.
func (j *Journal) Forget(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.attempts, name)
	if _, known := j.records[name]; known {
		delete(j.records, name)
		j.changed(later)
	}
}

// changed schedules a write of the records within some time. The caller holds mu.
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

// Start writes the records whenever they have changed, until ctx ends. The apps that are being started then have not
// crashed the hub, so that no app is recorded as being started when Start returns, if the API server is available.
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

// idle is how long the writer sleeps while there is nothing to write. A change of the records wakes it.
const idle = time.Hour

// pause returns the time until the next write.
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

// keep reads the records of the last process, if it has not read them yet, and writes the records.
func (j *Journal) keep(ctx context.Context) {
	trying, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	err := j.load(trying)
	change, copied := j.snapshot()
	if err == nil && !j.isKept(change) {
		err = j.store.write(trying, copied)
		if errors.Is(err, errOvertaken) { // This hub is the leader, so its records win.
			err = j.store.write(trying, copied)
		}
	}
	if ctx.Err() == nil {
		j.tell(j.settle(change, err), err)
	}
}

// load takes over the records of the last process, once.
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

// settle publishes the result of an attempt to the callers that wait. It returns the error of the previous attempt.
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

// tell logs the first of several failures, and the recovery.
func (j *Journal) tell(before, now error) {
	switch {
	case before == nil && now != nil:
		j.log.Error(now, "Failed to write the start journal; apps start without it")
	case before != nil && now == nil:
		j.log.Info("The start journal is written again")
	}
}

// close records that no app is being started. It tries once: another process may have written since, if this process has
// lost its lease.
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
		j.log.Error(err, "Failed to write the end of the hub to the start journal; the next hub starts the current apps last and alone")
	}
	_ = j.settle(change, err) // It wakes the callers that wait.
}

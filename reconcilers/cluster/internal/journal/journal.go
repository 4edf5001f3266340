// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry"
)

// Journal records which apps are being started. Those that a starting hub finds are not guilty by that.
//
// It keeps them in memory; one goroutine, Start, writes what has changed until that succeeds, many apps at once. While writes
// fail, no app waits: a hub must start apps while its API server is unavailable.
type Journal struct {
	writer  client.Writer
	live    client.Reader
	key     client.ObjectKey
	log     logr.Logger
	replica string        // empty for a hub alone, which has all records
	born    int64         // earlier starts are of another process of this replica
	timeout time.Duration // of one attempt to read and write
	ready   chan struct{} // closed when a hub alone has tried to read
	wake    chan struct{} // capacity 1: due may have changed

	// Used by the writer's goroutine only:
	notBefore time.Time         // earliest time of the next write
	seen      map[string]string // the data in the last response

	mu       sync.Mutex           // protects the fields below; held for map operations only
	records  map[types.UID]entry  // of the Clusters that this process has; an empty one says that there shall be none
	size     int                  // of the ConfigMap, in entries, with those that are to be written
	names    map[string]types.UID // of the Clusters that may start
	survived map[string]bool      // the Clusters whose apps have started in this process, or have ended in good order
	takes    []*take              // what is to be read
	due      time.Time            // when to write; zero for never
	last     *round
	next     *round
	over     bool // the hub is ending
}

// take is of Clusters that this process gets, or builds the apps of. crashed names the replica that had them.
type take struct {
	has     func(types.UID) bool
	term    int64
	crashed string
	done    chan struct{}
}

const (
	// defaultJournalTimeout bounds a read and write, and the wait of an app while the API server is silent.
	defaultJournalTimeout = 3 * time.Second
	journalRetry          = 2 * time.Second // journalRetry is the time between attempts that fail.
	// journalSpacing is between rounds of writes: an app that waits takes no processor time, so more start than processors.
	journalSpacing = 50 * time.Millisecond
	soon, later    = 10 * time.Millisecond, time.Second // soon is the delay of the write for a start, in which other starts join it; later is the delay of writes that no app waits for.
	maxEntries     = 2500                               // maxEntries keeps the ConfigMap below its limit of 1 MiB.
)

var (
	errUnknown     = errors.New("this replica does not have the Cluster")
	errJournalFull = fmt.Errorf("full with %d entries", maxEntries)
	errJournalOver = errors.New("the hub is ending")
)

var (
	_ registry.Journal               = (*Journal)(nil)
	_ manager.LeaderElectionRunnable = (*Journal)(nil)
)

// New keeps a journal in a ConfigMap, adds it to the manager, and sends no requests. The replica is
// empty for a hub alone, which takes all Clusters when it starts.
func New(mgr ctrl.Manager, key client.ObjectKey, replica string) (*Journal, error) {
	j := &Journal{
		writer: mgr.GetClient(), live: mgr.GetAPIReader(), key: key,
		log:     mgr.GetLogger().WithName("journal"),
		replica: replica,
		born:    time.Now().UnixNano(),
		timeout: defaultJournalTimeout,
		wake:    make(chan struct{}, 1),
		records: map[types.UID]entry{}, names: map[string]types.UID{}, survived: map[string]bool{},
		last: newRound(), next: newRound(),
	}
	close(j.last.done)
	j.ready = j.last.done
	if replica == "" {
		j.ready = j.next.done
		j.takes, j.due = []*take{{has: func(types.UID) bool { return true }, done: make(chan struct{})}}, time.Now()
	}
	if err := mgr.Add(j); err != nil {
		return nil, fmt.Errorf("add the journal to the manager: %w", err)
	}
	return j, nil
}

// NeedLeaderElection is true, so that the manager ends it in this order: after the caches and beside the reconciler.
func (j *Journal) NeedLeaderElection() bool { return true }

// Begin returns when the record would survive a crash. It fails when ctx ends, a write fails, or at once while the last has
// failed: at most 6 s after the call. The record is then written as soon as possible.
func (j *Journal) Begin(ctx context.Context, name registry.ClusterName, alone bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*j.timeout) // of a previous attempt, and of its own
	defer cancel()
	attempt, err := j.begin(string(name), alone)
	if err == nil {
		select {
		case <-attempt.done:
			err = attempt.err
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("record that the app of %s is being started: %w", name, err)
	}
	return nil
}

// begin returns the attempt that is to write the start.
func (j *Journal) begin(name string, alone bool) (attempt *round, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, isKnown := j.records[j.names[name]]
	switch {
	case j.over:
		return nil, errJournalOver
	case !isKnown:
		return nil, errUnknown
	case !e.isEmpty():
	case j.size >= maxEntries:
		return nil, fmt.Errorf("ConfigMap %s: %w", j.key, errJournalFull)
	default:
		j.size++
	}
	j.update(name, soon, func(e *entry) { e.Starting, e.Alone = time.Now().UnixNano(), alone && j.hasOther(name) })
	return j.next, j.last.err
}

func (j *Journal) hasOther(name string) bool {
	return len(j.survived) > 1 || len(j.survived) == 1 && !j.survived[name]
}

// End records that an app has started successfully or has ended in an orderly way. It does not block.
func (j *Journal) End(name registry.ClusterName) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.survived[string(name)] = true
	j.update(string(name), later, (*entry).end)
}

// Take reads what other processes have left of the Clusters that this replica gets in a term, or is about to build the apps of
// without a term: the ends of processes, and the apps that the crashed replica was starting, if it names one, or that an earlier
// process of this replica was. Its error is ctx's, with that of the last attempt.
func (j *Journal) Take(ctx context.Context, has func(uid types.UID) bool, term int64, crashed string) error {
	t := &take{has: has, term: term, crashed: crashed, done: make(chan struct{})}
	j.mu.Lock()
	j.takes = append(j.takes, t)
	j.wakeWithin(soon)
	j.mu.Unlock()
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.takes = slices.DeleteFunc(slices.Clone(j.takes), func(one *take) bool { return one == t })
	return fmt.Errorf("read the start journal: %w", errors.Join(context.Cause(ctx), j.last.err))
}

// Suspicion is followed by starts in this term; without one a replica only builds the app. A hub alone waits until the records
// were read and the end of the last process written, or that failed. The error is ctx's.
func (j *Journal) Suspicion(ctx context.Context, name string, uid types.UID, term int64) (Suspicion, error) {
	select {
	case <-j.ready:
	case <-ctx.Done():
		return Suspicion{}, fmt.Errorf("wait for the start journal: %w", context.Cause(ctx))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if before, isKnown := j.names[name]; isKnown && before != uid {
		j.update(name, later, remove)
	}
	j.names[name] = uid
	if _, isKnown := j.records[uid]; !isKnown {
		j.records[uid] = entry{}
	}
	j.update(name, later, func(e *entry) { e.Term, e.gone = term, false })
	e := j.records[uid]
	return e.suspicion(), nil
}

// Acquit removes the ends of processes from the record of an app.
func (j *Journal) Acquit(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.update(name, later, (*entry).acquit)
}

// LetGo leaves the records of Clusters to the replica that has them next. Those of apps that were built only are removed.
func (j *Journal) LetGo(has func(uid types.UID) bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for uid, e := range j.records {
		switch {
		case !has(uid):
		case j.isWarm(e):
			j.records[uid] = entry{}
			j.wakeWithin(later)
		default:
			delete(j.records, uid)
		}
	}
}

// Name says which Cluster has a name, for a Forget without a Suspicion before.
func (j *Journal) Name(name string, uid types.UID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, isKnown := j.names[name]; !isKnown {
		j.names[name] = uid
	}
}

// Forget removes the record of a Cluster that is gone, also if it has not been read yet.
func (j *Journal) Forget(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if uid, isKnown := j.names[name]; isKnown {
		if _, isRead := j.records[uid]; !isRead {
			j.records[uid] = entry{}
		}
	}
	j.update(name, later, remove)
	delete(j.names, name)
	delete(j.survived, name)
}

func remove(e *entry) { *e = entry{gone: true} }

// update changes the record of a Cluster, and schedules a write within some time if there is something to write. The caller
// holds mu.
func (j *Journal) update(name string, within time.Duration, f func(*entry)) {
	uid := j.names[name]
	before, isKnown := j.records[uid]
	if !isKnown {
		return // Another replica has the Cluster.
	}
	after := before
	f(&after)
	j.records[uid] = after
	if before != after && (!before.isEmpty() || !after.isEmpty() || after.gone) {
		j.wakeWithin(within)
	}
}

// wakeWithin schedules a write. The caller holds mu.
func (j *Journal) wakeWithin(within time.Duration) {
	at := time.Now().Add(within)
	if j.due.IsZero() || at.Before(j.due) {
		j.due = at
	}
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

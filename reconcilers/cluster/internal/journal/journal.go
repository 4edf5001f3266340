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
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry"
)

// Journal records which apps are being started. Those that a starting hub finds are not guilty by that.
//
// It keeps them in memory; one goroutine, Start, writes changed parts whole until that succeeds, many apps at once. While writes
// fail, no app waits: a hub must start apps while its API server is unavailable.
type Journal struct {
	log     logr.Logger
	base    configMap     // the clients and the namespace of all ConfigMaps
	timeout time.Duration // of one attempt to read and write
	ready   chan struct{} // closed when the first attempt to read and write has ended
	wake    chan struct{} // capacity 1: due may have changed

	// Used by the writer's goroutine only.
	loaded    bool
	notBefore time.Time // earliest time of the next write

	mu       sync.Mutex // protects the fields below, and those of the parts; held for map operations only
	parts    []*part
	records  records
	uids     map[string]types.UID // of the Clusters that may start
	survived map[string]bool      // the Clusters whose apps have started in this process, or have ended in good order
	due      time.Time            // when changed parts are to be written; zero for never
	unread   error                // of the last attempt to read; nil once the records were read
	failure  error                // of the last attempt, for the log
	away     error                // why the API server has responded to no write of the last attempt; nil if it has
	turn     chan struct{}        // closed when an attempt has ended
	over     bool                 // the hub is ending
}

const (
	// defaultJournalTimeout bounds a read and write, and the wait of an app while the API server is silent.
	defaultJournalTimeout = 3 * time.Second
	journalRetry          = 2 * time.Second // journalRetry is the time between attempts that fail.
	// journalSpacing is between rounds of writes: an app that waits takes no processor time, so more start than processors.
	journalSpacing = partCount * 50 * time.Millisecond
	soon, later    = 10 * time.Millisecond, time.Second // soon is the delay of the write for a start, in which other starts join it; later is the delay of writes that no app waits for.
	maxEntries     = 2500                               // maxEntries keeps the ConfigMap of a part below its limit of 1 MiB.
)

var (
	errJournalFull = fmt.Errorf("full with %d entries", maxEntries)
	errJournalOver = errors.New("the hub is ending")
)

var (
	_ registry.Journal               = (*Journal)(nil)
	_ manager.LeaderElectionRunnable = (*Journal)(nil)
)

// New keeps a journal in the ConfigMaps with the Names of a key, adds it to the manager, and sends no requests.
func New(mgr ctrl.Manager, key client.ObjectKey) (*Journal, error) {
	j := &Journal{
		log:     mgr.GetLogger().WithName("journal"),
		base:    configMap{writer: mgr.GetClient(), live: mgr.GetAPIReader(), key: key},
		timeout: defaultJournalTimeout,
		ready:   make(chan struct{}),
		wake:    make(chan struct{}, 1),
		records: records{},
		uids:    map[string]types.UID{}, survived: map[string]bool{},
		due:  time.Now(), // to be read
		turn: make(chan struct{}),
	}
	for _, name := range Names(key.Name) {
		j.parts = append(j.parts, &part{store: j.base.named(name)})
	}
	if err := mgr.Add(j); err != nil {
		return nil, fmt.Errorf("add the journal to the manager: %w", err)
	}
	return j, nil
}

// NeedLeaderElection is true: only the leader uses the journal, and records its end before it releases the lease.
func (j *Journal) NeedLeaderElection() bool { return true }

// Begin returns when the record would survive a crash. It fails when ctx ends, a write fails, or at once while the last has
// failed: at most 6 s after the call. The record is then written as soon as possible.
func (j *Journal) Begin(ctx context.Context, name registry.ClusterName, alone bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*j.timeout) // of a previous attempt, and of its own
	defer cancel()
	in, change, err := j.begin(string(name), alone)
	for done := false; err == nil && !done; {
		var turn <-chan struct{}
		if done, turn, err = j.outcome(in, change); turn != nil {
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

func (j *Journal) begin(name string, alone bool) (in *part, change int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	uid := j.uids[name]
	in = j.partOf(name, entry{UID: uid})
	switch {
	case j.over:
		return in, 0, errJournalOver
	case !j.records[name].isEmpty():
	case in.entries >= maxEntries:
		return in, 0, fmt.Errorf("ConfigMap %s: %w", in.store.key, errJournalFull)
	}
	j.update(name, soon, func() { j.records.begin(name, uid, time.Now(), alone && j.hasOther(name)) })
	return in, in.changes, nil
}

func (j *Journal) hasOther(name string) bool {
	return len(j.survived) > 1 || len(j.survived) == 1 && !j.survived[name]
}

func (j *Journal) outcome(in *part, change int64) (done bool, turn <-chan struct{}, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case in.kept >= change:
		return true, nil, nil
	case j.unread != nil:
		return false, nil, j.unread
	case in.failure != nil:
		return false, nil, in.failure
	case j.away != nil: // The next attempt for this part would take its time, too.
		return false, nil, j.away
	case j.over:
		return false, nil, errJournalOver
	}
	return false, j.turn, nil
}

// End records that an app has started successfully or has ended in an orderly way. It does not block.
func (j *Journal) End(name registry.ClusterName) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.survived[string(name)] = true
	j.update(string(name), later, func() { j.records.end(string(name)) })
}

// Suspicion waits until the records were read and the end of the last process written, or that failed; its error is ctx's.
func (j *Journal) Suspicion(ctx context.Context, name string, uid types.UID) (Suspicion, error) {
	select {
	case <-j.ready:
	case <-ctx.Done():
		return Suspicion{}, fmt.Errorf("wait for the start journal: %w", context.Cause(ctx))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.uids[name] = uid
	if e := j.records[name]; e.UID == uid || e.UID == "" {
		return e.suspicion(), nil
	}
	j.update(name, later, func() { j.records.acquit(name) }) // Only the name is the same.
	return Suspicion{}, nil
}

// Read reads another journal of this namespace after this one's. The result adds the ends of processes with the Clusters of
// isOurs and, if its writer has ended, the apps that it was starting as those of this hub's last process. It may be called many
// times and does not block. A missing journal is empty.
func (j *Journal) Read(ctx context.Context, other string, hasEnded bool) (adopt func(isOurs func(types.UID) bool), err error) {
	select {
	case <-j.ready:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the start journal: %w", context.Cause(ctx))
	}
	found := records{}
	for _, name := range Names(other) {
		s := j.base.named(name)
		part, err := s.read(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the start journal %s: %w", other, err)
		}
		maps.Copy(found, part)
	}
	if !hasEnded {
		found.dropStarts()
	}
	return func(isOurs func(types.UID) bool) { j.adopt(found, isOurs) }, nil
}

func (j *Journal) adopt(found records, isOurs func(types.UID) bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for name, e := range found {
		if isOurs(e.UID) {
			j.update(name, soon, func() { j.records.adopt(name, e, time.Now()) })
		}
	}
}

// Remove deletes the ConfigMaps of another journal, whose process has ended for good.
func (j *Journal) Remove(ctx context.Context, other string) error {
	for _, name := range Names(other) {
		s := j.base.named(name)
		if err := s.remove(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Acquit removes the ends of processes from the record of an app.
func (j *Journal) Acquit(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.update(name, later, func() { j.records.acquit(name) })
}

// Forget removes the record of a Cluster.
func (j *Journal) Forget(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.uids, name)
	delete(j.survived, name)
	j.update(name, later, func() { delete(j.records, name) })
}

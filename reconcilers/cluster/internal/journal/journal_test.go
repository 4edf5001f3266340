// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// line is the connection to the hub's API server, which a test can cut. It counts writes.
type line struct {
	base   http.RoundTripper
	writes atomic.Int64
	mu     sync.Mutex
	broken error         // the error of requests
	silent chan struct{} // requests wait until it is closed
}

func (l *line) RoundTrip(request *http.Request) (*http.Response, error) {
	l.mu.Lock()
	broken, silent := l.broken, l.silent
	l.mu.Unlock()
	if silent != nil {
		select {
		case <-silent:
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
	}
	if broken != nil {
		return nil, broken
	}
	if request.Method != http.MethodGet {
		l.writes.Add(1)
	}
	return l.base.RoundTrip(request)
}

func (l *line) set(broken error, silent chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken, l.silent = broken, silent
}

var errCut = errors.New("the line is cut")

// process is a process of a hub that consists of its journal only. The UIDs of its Clusters are their names.
type process struct {
	*Journal
	line  *line
	crash func() // ends it without a last write
	end   func() // shuts it down
}

// journaling returns functions that start processes in one namespace, of a hub alone or of a replica, and read the journal.
func journaling(t *testing.T) (start func(replica string) *process, record func() map[string]entry) {
	t.Helper()
	config := fleettest.Cluster(t, "hub").Config()
	direct, err := client.New(config, client.Options{})
	must(t, err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "journal-"}}
	must(t, direct.Create(t.Context(), namespace))
	key := client.ObjectKey{Namespace: namespace.Name, Name: "starting"}
	start = func(replica string) *process {
		t.Helper()
		p := &process{line: &line{}}
		watched := rest.CopyConfig(config)
		watched.Wrap(func(base http.RoundTripper) http.RoundTripper {
			p.line.base = base
			return p.line
		})
		mgr, err := ctrl.NewManager(watched, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard()})
		must(t, err)
		p.Journal, err = New(mgr, key, replica)
		must(t, err)
		p.timeout = 12 * time.Second // The machine may be busy.
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		done := make(chan error, 1)
		go func() { done <- p.Start(ctx) }()
		p.end = sync.OnceFunc(func() {
			cancel()
			must(t, <-done)
		})
		p.crash = func() {
			p.line.set(errCut, nil)
			p.end()
		}
		t.Cleanup(p.end)
		return p
	}
	record = func() map[string]entry {
		t.Helper()
		all := map[string]entry{}
		one := Journal{live: direct, key: key}
		must(t, one.readAll(t.Context()))
		for uid, text := range one.seen {
			all[uid] = decode(text)
		}
		return all
	}
	return start, record
}

var must, eventually = testkit.Must, testkit.Eventually

func (p *process) suspectIn(t *testing.T, name string, term int64) Suspicion {
	t.Helper()
	s, err := p.Suspicion(t.Context(), name, types.UID(name), term)
	must(t, err)
	return s
}

func (p *process) suspect(t *testing.T, name string) Suspicion {
	t.Helper()
	return p.suspectIn(t, name, 0)
}

func (p *process) begin(t *testing.T, name string, alone bool) error {
	t.Helper()
	p.suspect(t, name)
	return p.Begin(t.Context(), registry.ClusterName(name), alone)
}

// A process counts how many processes in a row ended while an app was being started, and that makes no app guilty.
func TestJournal_KnowsWhatTheLastProcessWasStarting(t *testing.T) {
	t.Parallel()
	start, record := journaling(t)
	for ends := range SuspectAfter + 1 {
		p := start("")
		for _, name := range []string{"culprit", "proven"} {
			want := 0
			if name == "culprit" {
				want = min(ends, SuspectAfter)
			}
			if got := p.suspect(t, name); got != (Suspicion{Ends: want}) {
				t.Fatalf("%s: got %+v after %d ends, want %d", name, got, ends, want)
			}
			eventually(t, func() error {
				if e := record()[name]; e.suspicion().Ends != want {
					return fmt.Errorf("got %+v before a start, want %d recorded ends", e, want)
				}
				return nil
			})
			must(t, p.Begin(t.Context(), registry.ClusterName(name), false))
		}
		p.End("proven")
		eventually(t, func() error {
			if kept := record(); kept["culprit"].Starting == 0 || kept["proven"].Starting != 0 {
				return fmt.Errorf("got journal %+v, want the start of culprit only", kept)
			}
			return nil
		})
		p.crash()
	}
}

// An app that starts alone has ended a process that ends then, but only if another app has started in it.
func TestJournal_OneAtATime(t *testing.T) {
	t.Parallel()
	start, _ := journaling(t)
	for _, tc := range []struct {
		before registry.ClusterName
		guilty bool
	}{{"", false}, {"culprit", false}, {"other", true}} {
		p := start("")
		_, _ = p.suspect(t, "other"), p.suspect(t, "culprit")
		if tc.before != "" {
			must(t, p.Begin(t.Context(), tc.before, true))
			p.End(tc.before)
		}
		must(t, p.Begin(t.Context(), "culprit", true))
		p.crash()
		p = start("")
		if s := p.suspect(t, "culprit"); s.Convicted.IsZero() == tc.guilty {
			t.Errorf("after a start of %q: got %+v, want a conviction: %t", tc.before, s, tc.guilty)
		}
		if s := p.suspect(t, "other"); s != (Suspicion{}) {
			t.Errorf("after a start of %q: got %+v for an app that was not being started", tc.before, s)
		}
		p.end()
	}
}

func TestJournal_AnEndInGoodOrderLeavesNoSuspects(t *testing.T) {
	t.Parallel()
	start, record := journaling(t)
	p := start("")
	must(t, p.begin(t, "a", false))
	p.end()
	if left := record(); len(left) != 0 {
		t.Errorf("got entries %+v after the end, want an empty journal", left)
	}
	if err := p.Begin(t.Context(), "b", false); !errors.Is(err, errJournalOver) {
		t.Errorf("a start after the end returns %v, want errJournalOver", err)
	}
	if s := start("").suspect(t, "a"); s.Ends != 0 {
		t.Errorf("got %+v, want no end", s)
	}
}

func TestJournal_ManyStartsAreFewWrites(t *testing.T) {
	t.Parallel()
	start, record := journaling(t)
	p := start("")
	const count = 200
	began := time.Now()
	var starting sync.WaitGroup
	for i := range count {
		name := registry.ClusterName(fmt.Sprintf("c%d", i))
		p.suspect(t, string(name))
		starting.Go(func() {
			// The starts follow each other within a second.
			timer := time.NewTimer(rand.N(time.Second))
			defer timer.Stop()
			<-timer.C
			if err := p.Begin(t.Context(), name, false); err != nil {
				t.Error(err)
			}
			p.End(name)
		})
	}
	starting.Wait()
	took := time.Since(began)
	eventually(t, func() error {
		if left := record(); len(left) != 0 {
			return fmt.Errorf("got %d entries, want 0", len(left))
		}
		return nil
	})
	writes := p.line.writes.Load()
	t.Logf("%d starts within %s: %d writes", count, took, writes)
	if most := int64(took/journalSpacing) + 5; writes > most {
		t.Errorf("%d starts within %s: %d writes, want at most %d", count, took, writes, most)
	}
}

func TestJournal_IsNoGuard(t *testing.T) {
	t.Parallel()
	start, record := journaling(t)
	p := start("")
	must(t, p.begin(t, "before", false))
	for how, cut := range map[string]func(){
		"refuses":   func() { p.line.set(errCut, nil) },
		"is silent": func() { p.line.set(nil, make(chan struct{})) },
	} {
		t.Run("when the API server "+how, func(t *testing.T) {
			cut()
			began := time.Now()
			if err := p.begin(t, "first", false); err == nil {
				t.Error("Begin returns no error, want an error for a start without a journal entry")
			}
			if took := time.Since(began); took > 5*p.timeout {
				t.Errorf("an app waited for %s", took)
			}
			began = time.Now()
			for i := range 100 {
				_ = p.begin(t, fmt.Sprintf("c%d", i), false)
			}
			if took := time.Since(began); took > 2*p.timeout { // They do not wait one after the other.
				t.Errorf("100 more apps waited for %s", took)
			}
			p.line.set(nil, nil)
			eventually(t, func() error {
				if kept := record(); kept["first"].Starting == 0 || kept["c99"].Starting == 0 {
					return errors.New("what happened meanwhile is not on record")
				}
				return nil
			})
			eventually(t, func() error { return p.begin(t, "after", false) })
			for name := range record() {
				p.End(registry.ClusterName(name))
			}
		})
	}
	key := p.key
	t.Run("when its ConfigMap is away", func(t *testing.T) {
		must(t, deleteConfigMap(t, key))
		must(t, p.begin(t, "deleted", false))
		if record()["deleted"].Starting == 0 {
			t.Error("the start is not in the journal")
		}
	})
	t.Run("when the ConfigMap holds something else", func(t *testing.T) {
		p.crash()
		direct, err := client.New(fleettest.Cluster(t, "hub").Config(), client.Options{})
		must(t, err)
		var found corev1.ConfigMap
		must(t, direct.Get(t.Context(), key, &found))
		found.Data["nonsense"] = strings.Repeat("?", 100)
		must(t, direct.Update(t.Context(), &found))
		next := start("")
		if s := next.suspect(t, "deleted"); s.Ends != 1 {
			t.Errorf("got %+v, want 1 end", s)
		}
		must(t, next.begin(t, "a", false))
		eventually(t, func() error {
			if _, isLeft := record()["nonsense"]; isLeft {
				return errors.New("the nonsense is left")
			}
			return nil
		})
	})
}

func deleteConfigMap(t *testing.T, key client.ObjectKey) error {
	t.Helper()
	direct, err := client.New(fleettest.Cluster(t, "hub").Config(), client.Options{})
	must(t, err)
	return direct.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
}

// A Cluster of the same name with another UID has a record of its own, in place of the other's.
func TestJournal_AnotherOfTheName(t *testing.T) {
	t.Parallel()
	start, record := journaling(t)
	p := start("")
	for _, uid := range []types.UID{uuid.NewUUID(), uuid.NewUUID()} {
		s, err := p.Suspicion(t.Context(), "a", uid, 0)
		if err != nil || s.Ends != 0 {
			t.Errorf("got %+v and error %v for another Cluster of the name, want no ends", s, err)
		}
		must(t, p.Begin(t.Context(), "a", false))
		eventually(t, func() error {
			if all := record(); len(all) != 1 || all[string(uid)].Starting == 0 {
				return fmt.Errorf("got the records %+v, want the start of %s", all, uid)
			}
			return nil
		})
	}
}

func TestJournal_FitsIntoAConfigMap(t *testing.T) {
	t.Parallel()
	j := newJournal()
	j.replica = strings.Repeat("r", 63)
	name := func(i int) string { return fmt.Sprint("c", i) }
	add := func(name string, uid types.UID) {
		j.names[name], j.records[uid] = uid, entry{}
	}
	size := 0
	for i := range maxEntries {
		uid := uuid.NewUUID()
		add(name(i), uid)
		if _, err := j.begin(name(i), true); err != nil {
			t.Fatal(err)
		}
		e := j.records[uid]
		e.Ends, e.Alone, e.Convicted, e.Term = [SuspectAfter]int64{e.Starting, e.Starting, e.Starting}, true, e.Starting, 1<<31
		size += len(uid) + len(warmSuffix) + len(j.text(e))
	}
	t.Logf("a full journal has %d bytes", size)
	if size > 1<<20-1<<12 {
		t.Errorf("a full journal has %d bytes, want fewer than a ConfigMap holds", size)
	}
	add("one-more", uuid.NewUUID())
	if _, err := j.begin("one-more", false); !errors.Is(err, errJournalFull) {
		t.Errorf("got error %v, want errJournalFull", err)
	}
	if _, err := j.begin(name(0), false); err != nil {
		t.Errorf("an existing entry: got error %v, want no error", err)
	}
	j.Forget(name(1))
	j.count()
	if _, err := j.begin("one-more", false); err != nil {
		t.Errorf("in place of an entry that is gone: got error %v, want no error", err)
	}
}

func newJournal() *Journal {
	return &Journal{
		wake: make(chan struct{}, 1), records: map[types.UID]entry{}, names: map[string]types.UID{}, last: newRound(), next: newRound(), log: logr.Discard(),
	}
}

// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/hostile"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// The states and reasons of remotes whose API server lies. An app that cannot work waits, and is restarted when it has
// waited too long. An app that does not need the wrong responses is Ready.
const (
	notHealthy   = "Unreachable/NotHealthy"
	timedOut     = "Unreachable/TimedOut"
	tlsFailed    = "Unreachable/TLSFailed"
	unreachable  = "Unreachable/Unreachable"
	undiscovered = "(Starting|Failed)/StartFailed"
	waiting      = "(Starting|Failed)/(Waiting|CacheSyncTimedOut)"
	overBudget   = "(Starting|Failed)/OverBudget"
	ready        = "Ready/Ready"
)

// fates has the scripts by the state and reason that their remotes get.
var fates = map[string][]string{
	notHealthy: {
		"html everywhere", "html version", "nothing everywhere", "500 everywhere", "503 everywhere",
		"redirect 301", "redirect 302", "redirect 307", "redirect 308", "too short a length",
		"no uid", "a uid of 10 MB", "a uid of 100 kB", "a version of 1 MB", "a version of 100 kB", "a version to look at", "a nested version",
	},
	timedOut: {
		"mute after the hello", "mute after the handshake", "ping flood", "silence", "dripping headers", "dripping everything",
	},
	// TestHostile_ClosedConnectionsInAShortTime requires NotHealthy. Beside many others, a retry may be cut off by the timeout.
	"Unreachable/(NotHealthy|TimedOut)": {"goaway before every answer"},
	tlsFailed:                           {"no tls", "another certificate"},
	unreachable: {
		"tls garbage", "continuation flood", "a header of 1 MiB", "ten thousand headers",
		"negative length", "two lengths", "too long a length", "no answer",
	},
	"Unreachable/Throttled":    {"429 everywhere"},
	"Unreachable/Unauthorized": {"401 everywhere"},
	"Unreachable/Forbidden":    {"403 everywhere"},
	undiscovered: {
		"html discovery", "wrong types", "a hundred thousand resources", "a million resources", "millions of empty groups",
		"old discovery", "endless discovery",
	},
	"Starting/Waiting": {"an object that does not fit", "other resources", "borrowed etag", "no resources", "discovery of nulls"},
	"(Starting|Failed)/(Forbidden|CacheSyncTimedOut)": {"403 for objects"},
	waiting: {
		"html objects", "nothing for objects", "401 for objects", "500 for objects", "429 for objects", "503 for objects",
		"500 without an end", "redirect objects", "reset storm", "silence for objects", "endless headers", "endless early hints",
		"an upgrade without a request", "colourful warnings", "ten thousand warnings",
		"gzip bomb", "endless list", "endless spaces", "endless garbage", "dripping list", "half a list", "half a protobuf",
		"garbage in protobuf", "protobuf of a giant", "nested list", "list in yaml", "list as text", "list is a table",
		"list is a status", "endless pages", "a million empty objects", "a million empty protobufs", "a million empty owners", "containers in protobuf",
	},
	overBudget: {"endless large pages", "the same name over and over", "watch of no end of objects"},
	ready: {
		"stream without its end", "stream with plain bookmarks", "watch never begins", "dripping watch",
		"html readyz", "goaway storm", "a hundred warnings", "endless readyz", "another uid each time", "list is null",
		"expired pages", "a string of 64 MiB", "owners in protobuf", "objects without metadata", "objects of another kind", "names that are none",
		"a version that is no number", "a version that is too large", "a version of nothing", "a version for the address",
		"versions that go back", "endless frame", "endless frame of spaces", "endless frame of lists", "endless frame in protobuf", "containers in an event",
		"endless frame later", "watch as text", "watch closed at once", "watch closed after the beginning", "watch expires forever",
		"watch closed after an event", "events of garbage", "events without an object", "events of no type", "events of no name",
		"events of another kind", "bookmarks of nonsense", "bookmark flood", "errors of nonsense", "the same object over and over",
	},
}

// heavy are the scripts that attack the hub's memory. They run one by one, so that the growth of the heap belongs to one of them.
var heavy = []string{
	"500 without an end", "an upgrade without a request", "a uid of 10 MB", "a hundred thousand resources", "a million resources",
	"millions of empty groups", "endless discovery", "endless readyz", "gzip bomb",
	"endless list", "endless spaces", "endless garbage", "nested list", "list in yaml", "endless large pages",
	"a string of 64 MiB", "a million empty objects", "a million empty protobufs", "a million empty owners",
	"owners in protobuf", "containers in protobuf", "containers in an event", "the same name over and over", "endless frame", "endless frame of spaces",
	"endless frame in protobuf", "endless frame later",
	"watch of no end of objects", "continuation flood", "errors of nonsense",
}

// quick are the scripts of a run with -short: one for each fate and for each way of a response into the hub. What the others do to
// single responses is shown by the tests of transport, meter, kubeconfig and restmapper.
var quick = []string{
	"html everywhere", "silence", "goaway before every answer", "no tls", "no answer", "401 everywhere", "403 everywhere",
	"html discovery", "stream without its end", "an object that does not fit", "other resources", "403 for objects", "500 for objects", "redirect 307", "redirect objects", "a hundred warnings",
	"events of another kind", "a million empty objects", "the same name over and over", "endless frame",
}

// Limits of the damage that hostile remotes may do to the hub.
const (
	// maxCache and maxObjects are the budget of the cache of an app, in bytes and objects.
	maxCache, maxObjects = 96 << 20, 5000
	// maxHeap is the growth of the hub's heap for one remote, in bytes: 64 MiB, the budget of the cache, and the 200 MiB
	// that it takes to read the largest response.
	maxHeap = 64<<20 + maxCache + 200<<20
	// noticed is the time in which a neighbour's reconciler must see a write when all scripts run, which needs a machine of
	// its own. With -short other tests share the processors, and only a reconciler that is blocked is late.
	noticed, noticedBusy = time.Second, 20 * time.Second
	// maxRequests is the number of requests per second that a remote may get, which is the rate of its app, and maxBurst
	// the number of requests in addition.
	maxRequests, maxBurst = 510, 1100
)

// together is the number of remotes whose API servers lie at the same time.
const together = 32

// API servers that lie affect the state of their own remotes only: the hub keeps running, no credential reaches another
// host, and the neighbour's reconciler keeps its latency.
// Promise: a remote that lies hurts neither other remotes nor the hub.
func TestHostile(t *testing.T) {
	scripts := scriptsToRun(t, false)
	s := newHostileSuite(t, registry.Limits{SyncTimeout: 6 * time.Second})
	for batch := range slices.Chunk(scripts, together) {
		s.runAll(t, batch)
	}
	s.check(t)
}

// The heap of the hub stays within its limit under every script that attacks it.
func TestHostile_Memory(t *testing.T) {
	scripts := scriptsToRun(t, true)
	s := newHostileSuite(t, registry.Limits{SyncTimeout: time.Minute, MaxCacheBytes: maxCache, MaxObjects: maxObjects})
	for _, script := range scripts {
		s.runAll(t, []hostile.Script{script})
	}
	s.check(t)
}

// A server that closes every connection before it responds is NotHealthy, not TimedOut, even if the timeout of the probe is
// shorter than the hub's retries.
func TestHostile_ClosedConnectionsInAShortTime(t *testing.T) {
	t.Parallel()
	scripts := hostile.Scripts()
	i := slices.IndexFunc(scripts, func(s hostile.Script) bool { return s.Name == "goaway before every answer" })
	server, err := hostile.New(fleettest.Cluster(t, "one").Kubeconfig(), scripts[i])
	must(t, err)
	t.Cleanup(server.Close)
	r := newRegistry(t, func(*registry.Options) {})
	config := configFor(t, server.Kubeconfig())
	config.Probe = state.Probe{Period: time.Second, Timeout: time.Second}
	must(t, r.Ensure("closing", config))
	expectStatus(t, r, "closing", func(info registry.Status) bool {
		return fateOf(info) == notHealthy && strings.Contains(info.Message, "closes every connection")
	})
}

// scriptsToRun returns the scripts that attack memory, or the other scripts: with -short the quick ones of them.
func scriptsToRun(t *testing.T, afterMemory bool) []hostile.Script {
	t.Helper()
	all := hostile.Scripts()
	checkFates(t, all)
	return slices.DeleteFunc(all, func(s hostile.Script) bool {
		return slices.Contains(heavy, s.Name) != afterMemory || testing.Short() && !slices.Contains(quick, s.Name)
	})
}

// checkFates fails the test unless every script has exactly one fate.
func checkFates(t *testing.T, scripts []hostile.Script) {
	t.Helper()
	of := map[string]int{}
	for _, names := range fates {
		for _, name := range names {
			of[name]++
		}
	}
	for _, s := range scripts {
		if of[s.Name] != 1 {
			t.Errorf("script %q is in %d lists of fates, want 1", s.Name, of[s.Name])
		}
		delete(of, s.Name)
	}
	for name := range of {
		t.Errorf("there is a fate for %q, which is no script", name)
	}
}

// hostileSuite runs scripts against one registry, which has a healthy remote, too.
type hostileSuite struct {
	registry  *registry.Registry
	neighbour *neighbour
	upstream  []byte
}

func newHostileSuite(t *testing.T, limits registry.Limits) *hostileSuite {
	t.Helper()
	limits.StopTimeout = 5 * time.Second
	fleettest.Clusters(t, "hub", "two", "one") // at once
	var c counter
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules, o.Limits, o.Log = []registry.Module{c.module()}, limits, logr.Discard()
	})
	return &hostileSuite{
		registry: r, neighbour: newNeighbour(t, r, "two"), upstream: fleettest.Cluster(t, "one").Kubeconfig(),
	}
}

// check fails the test if the neighbour was slowed down, or if an app did not end.
func (s *hostileSuite) check(t *testing.T) {
	t.Helper()
	within := noticed
	if testing.Short() {
		within = noticedBusy
	}
	s.neighbour.check(t, within)
	if got := s.registry.Zombies(); got != 0 {
		t.Errorf("%d apps of hostile remotes have not ended", got)
	}
}

// runAll registers a remote for each script at the same time, waits until each has its fate, and stops them.
func (s *hostileSuite) runAll(t *testing.T, scripts []hostile.Script) {
	t.Helper()
	heap := watchHeap()
	began := time.Now()
	var remotes []*hostileRemote
	for _, script := range scripts {
		remotes = append(remotes, s.register(t, script))
	}
	var settling sync.WaitGroup
	for _, one := range remotes {
		settling.Go(func() { one.settle(t) })
	}
	settling.Wait()
	for _, one := range remotes {
		one.check(t, time.Since(began))
		settling.Go(func() { one.stop(t) })
	}
	settling.Wait()
	grown := heap.stop()
	if grown > maxHeap {
		t.Errorf("the heap grew by %d MiB during %q, want %d", grown>>20, scripts[0].Name, maxHeap>>20)
	}
}

type hostileRemote struct {
	registry *registry.Registry
	name     registry.ClusterName
	script   hostile.Script
	server   *hostile.Server
	fate     *regexp.Regexp
	last     registry.Status
	wasReady bool
}

func (s *hostileSuite) register(t *testing.T, script hostile.Script) *hostileRemote {
	t.Helper()
	server, err := hostile.New(s.upstream, script)
	if err != nil {
		t.Fatalf("start the server of %q: %v", script.Name, err)
	}
	t.Cleanup(server.Close)
	one := &hostileRemote{
		registry: s.registry, server: server, script: script,
		name: registry.ClusterName("hostile-" + strings.ToLower(regexp.MustCompile("[^A-Za-z0-9]+").ReplaceAllString(script.Name, "-"))),
	}
	for fate, names := range fates {
		if slices.Contains(names, script.Name) {
			one.fate = regexp.MustCompile("^" + fate + "$")
		}
	}
	config := configFor(t, server.Kubeconfig())
	config.Probe = state.Probe{Period: time.Second, Timeout: 2 * time.Second}
	must(t, s.registry.Ensure(one.name, config))
	return one
}

// The duration of a script: at least until its second attempt, and at most until the remote has its fate on a busy machine.
const (
	atLeast = 1500 * time.Millisecond
	atMost  = 90 * time.Second
)

// settle waits until the script has run long enough and the remote has its fate.
func (h *hostileRemote) settle(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	for {
		h.last, _ = h.registry.Status(h.name)
		h.wasReady = h.wasReady || h.last.State == state.StateReady
		met := h.fate.MatchString(fateOf(h.last))
		took := time.Since(began)
		if met && took >= atLeast || took >= atMost {
			return
		}
		<-tick.C
	}
}

func fateOf(info registry.Status) string { return string(info.State) + "/" + info.Reason }

// check fails the test if the remote has the wrong fate, or if a server got requests that it should not get.
func (h *hostileRemote) check(t *testing.T, took time.Duration) {
	t.Helper()
	if got := fateOf(h.last); !h.fate.MatchString(got) || h.last.Message == "" {
		t.Errorf("%s: %s (%s), want %s", h.script.Name, got, h.last.Message, h.fate)
	}
	if !h.fate.MatchString(ready) && h.wasReady {
		t.Errorf("%s: was Ready for a while", h.script.Name)
	}
	stats := h.server.Stats()
	if len(stats.Elsewhere) > 0 {
		t.Errorf("%s: another host got %q", h.script.Name, stats.Elsewhere)
	}
	if most := maxBurst + int64(maxRequests*took.Seconds()); stats.Requests > most {
		t.Errorf("%s: %d requests in %s, want %d at most", h.script.Name, stats.Requests, took, most)
	}
	if stats.Lies == 0 {
		t.Errorf("%s: the server has not lied", h.script.Name)
	}
}

// stop stops the remote, which must not take long whatever the server does.
func (h *hostileRemote) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := h.registry.Stop(ctx, h.name); err != nil && !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("%s: Stop: %v", h.script.Name, err)
	}
	h.server.Close()
}

type heapWatch struct {
	before, peak uint64
	end          chan struct{}
	ended        chan struct{}
}

// heapEvery is the time between two samples of the heap.
const heapEvery = 20 * time.Millisecond

func watchHeap() *heapWatch {
	runtime.GC()
	w := &heapWatch{before: heapInUse(), end: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		tick := time.NewTicker(heapEvery)
		defer tick.Stop()
		for {
			w.peak = max(w.peak, heapInUse())
			select {
			case <-tick.C:
			case <-w.end:
				return
			}
		}
	}()
	return w
}

// stop returns the maximum growth of the heap in bytes.
func (w *heapWatch) stop() int64 {
	close(w.end)
	<-w.ended
	return int64(w.peak) - int64(w.before)
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

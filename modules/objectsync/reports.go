// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// periods are those of a hub, and shorter in tests.
type periods struct {
	report   time.Duration // the least time between two writes about one rule
	settling time.Duration // how long a new process says nothing of rules that its apps do not follow yet
	settled  time.Duration // how long an edit has to be old before copies are given up for it
	lack     time.Duration // when a rule is tried again that lacks something; up to a quarter more
	recheck  time.Duration // the least time between two reviews of an entry that works
}

func usual() periods {
	return periods{
		report: 10 * time.Second, settling: 15 * time.Second, settled: 10 * time.Second, lack: 20 * time.Second,
		recheck: 10 * time.Second,
	}
}

// shared is what the hub part of the module and the apps of this replica know of each other.
type shared struct {
	periods periods
	rules   *rules.Compiler // compiles a rule once for all apps
	first   sync.Once
	exists  chan struct{} // closed when the hub has, or had, a rule

	reports watch.Requests // of rules

	mu      sync.Mutex                       // protects the field; held for a few instructions
	engines map[registry.ClusterName]*engine // of the last app of each remote
}

func newShared(p periods) *shared {
	return &shared{periods: p, rules: &rules.Compiler{}, exists: make(chan struct{}), engines: map[registry.ClusterName]*engine{}}
}

// report is what an app says of a rule in its remote.
type report struct {
	Generation int64 // of the rule that the app follows
	Following  bool  // it works in this generation, with the problems below
	Ended      bool  // of a Terminating rule: copies and finalizers are dealt with here
	Originals  int32
	Copies     int32
	Problems   problems
}

// problems are reasons with one object as an example, "namespace/name", may be empty.
type problems = map[hubv1.SyncProblemReason]string

// join replaces the engine of an earlier app.
func (s *shared) join(e *engine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engines[e.params.Name] = e
}

// leave is for a remote that another replica runs now, or that does not exist.
func (s *shared) leave(runs func(registry.ClusterName) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.engines, func(name registry.ClusterName, _ *engine) bool { return !runs(name) })
}

// said is false for a rule that has nothing in the remote.
func (s *shared) said(rule string, of registry.ClusterName) (said report, says bool) {
	s.mu.Lock()
	e := s.engines[of]
	s.mu.Unlock()
	if e == nil {
		return report{}, false
	}
	one := e.entry(rule)
	if one == nil {
		return report{}, false
	}
	return one.said(), true
}

// touch asks for a report of a rule, in a moment: what changes until then is one report.
func (s *shared) touch(rule string) { s.reports.Add(rule, lookEvery) }

// said is what the hub part learns when it asks how far the rule is in this remote.
func (e *entry) said() report {
	if e.idle != nil {
		return *e.idle
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	one := report{Generation: e.Generation, Following: e.first == nil, Problems: problems{}}
	one.Originals, one.Copies = int32(len(e.seen)), int32(e.opened.Count()) //nolint:gosec // They are objects in memory.
	for reason, about := range e.trouble {
		one.Problems[reason] = first(about)
	}
	if held := len(e.trouble[hubv1.SyncHeld]); held > 0 {
		one.Problems[hubv1.SyncHeld] = fmt.Sprintf("%d of %d copies, as of %s", held, one.Copies, one.Problems[hubv1.SyncHeld])
	}
	if len(e.first) > 0 && time.Since(e.began) > e.engine.shared.periods.settled {
		one.Problems[hubv1.SyncWaiting] = first(e.first)
	}
	return one
}

// first of some keys, so that the same ones make the same report.
func first(some keys) string {
	return slices.MinFunc(some.UnsortedList(), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}).String()
}

// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"maps"
	"sync"
	"time"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
)

// shared is what the hub part of the module gives to the apps of this replica.
type shared struct {
	reports *reports
	rules   *rules.Compiler // compiles a rule once for all apps
	first   sync.Once
	exists  chan struct{} // closed when the hub has, or had, a rule
}

func newShared() *shared {
	return &shared{reports: newReports(), rules: &rules.Compiler{}, exists: make(chan struct{})}
}

// report is what an app says of a rule in its remote.
type report struct {
	Generation int64 // of the rule that the app follows
	Following  bool  // it works in this generation, with the problems below
	Ended      bool  // of a Terminating rule: copies and finalizers are dealt with here
	Originals  int64
	Copies     int64
	Problems   map[hubv1.SyncProblemReason]string // reason to one object as an example, "namespace/name", may be empty
}

// itself is for reports.set.
func (r report) itself() report { return r }

// reports has what the apps of this replica say of each rule when it is asked.
type reports struct {
	mu    sync.Mutex // protects the fields
	rules map[string]map[string]*teller
	dirty map[string]bool // rules about which something has changed since take
}

// teller is the app of a Cluster.
type teller struct {
	ask   func() report
	since map[hubv1.SyncProblemReason]time.Time // of reports.of
}

// told is a report, with the time at which each of its problems was first reported.
type told struct {
	report
	since map[hubv1.SyncProblemReason]time.Time
}

func newReports() *reports {
	return &reports{rules: map[string]map[string]*teller{}, dirty: map[string]bool{}}
}

// set says who tells about a rule in a Cluster. The function must not block.
func (r *reports) set(rule, cluster string, ask func() report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rules[rule] == nil {
		r.rules[rule] = map[string]*teller{}
	}
	if r.rules[rule][cluster] == nil {
		r.rules[rule][cluster] = &teller{}
	}
	r.rules[rule][cluster].ask = ask
	r.dirty[rule] = true
}

// forget is for an app that ends, or no longer has the rule.
func (r *reports) forget(rule, cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.rules[rule][cluster]; !known {
		return
	}
	delete(r.rules[rule], cluster)
	if len(r.rules[rule]) == 0 {
		delete(r.rules, rule)
	}
	r.dirty[rule] = true
}

// touch marks a rule as changed.
func (r *reports) touch(rule string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dirty[rule] = true
}

// of asks what is said of a rule, by Cluster. One goroutine calls it.
func (r *reports) of(rule string) map[string]told {
	r.mu.Lock()
	tellers, asks := maps.Clone(r.rules[rule]), map[string]func() report{}
	for cluster, one := range tellers {
		asks[cluster] = one.ask
	}
	r.mu.Unlock()
	said := make(map[string]told, len(tellers))
	for cluster, one := range tellers {
		now, since := asks[cluster](), map[hubv1.SyncProblemReason]time.Time{}
		for reason := range now.Problems {
			if since[reason] = one.since[reason]; since[reason].IsZero() {
				since[reason] = time.Now()
			}
		}
		one.since = since
		said[cluster] = told{now, since}
	}
	return said
}

// take returns the rules about which something has changed, and forgets that.
func (r *reports) take() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.dirty
	r.dirty = map[string]bool{}
	return taken
}

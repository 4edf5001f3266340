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
}

func newShared() *shared { return &shared{reports: newReports(), rules: &rules.Compiler{}} }

// report is what an app says of a rule in its remote.
type report struct {
	Generation int64 // of the rule that the app follows
	Following  bool  // it works in this generation, with the problems below
	Ended      bool  // of a Terminating rule: copies and finalizers are dealt with here
	Originals  int64
	Copies     int64
	Problems   map[hubv1.SyncProblemReason]string // reason to one object as an example, "namespace/name", may be empty
}

func (r report) equals(other report) bool {
	return r.Generation == other.Generation && r.Following == other.Following && r.Ended == other.Ended &&
		r.Originals == other.Originals && r.Copies == other.Copies && maps.Equal(r.Problems, other.Problems)
}

// reports has what the apps of this replica say of each rule.
type reports struct {
	mu    sync.Mutex // protects the fields
	rules map[string]map[string]told
	dirty map[string]bool // rules about which something has changed since take
}

// told is a report, with the time at which each of its problems was first reported.
type told struct {
	report
	since map[hubv1.SyncProblemReason]time.Time
}

func newReports() *reports {
	return &reports{rules: map[string]map[string]told{}, dirty: map[string]bool{}}
}

// set replaces what the app of a Cluster has said of a rule. The report must not be changed afterwards.
func (r *reports) set(rule, cluster string, one report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, known := r.rules[rule][cluster]
	if known && before.equals(one) {
		return
	}
	if r.rules[rule] == nil {
		r.rules[rule] = map[string]told{}
	}
	now, since := time.Now(), map[hubv1.SyncProblemReason]time.Time{}
	for reason := range one.Problems {
		if since[reason] = now; !before.since[reason].IsZero() {
			since[reason] = before.since[reason]
		}
	}
	r.rules[rule][cluster] = told{report: one, since: since}
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

// of returns what is said of a rule, by Cluster.
func (r *reports) of(rule string) map[string]told {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.rules[rule])
}

// take returns the rules about which something has changed, and forgets that.
func (r *reports) take() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.dirty
	r.dirty = map[string]bool{}
	return taken
}

// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/e2e/fault"
)

// late is by how much a busy machine may delay a replica. The model has the time without a writer on an idle machine.
const late = 20 * time.Second

// changesOfAnAdministrator end the incarnation of the replica a, without the wait of the protocol.
func changesOfAnAdministrator() map[string]func(*world) {
	return map[string]func(*world){
		"deleted":     func(w *world) { w.deleteLease("a") },
		"overwritten": func(w *world) { w.overwriteLease("a", "an-administrator") },
		"released":    func(w *world) { w.overwriteLease("a", "") },
		"created again": func(w *world) {
			w.deleteLease("a")
			w.createLease("a", labelReplica)
		},
		"restored": func(w *world) {
			old := w.lease("a")
			w.deleteLease("a")
			old.ResourceVersion, old.Spec.HolderIdentity = "", new("an-old-incarnation")
			old.Annotations = map[string]string{annotationEnded: "an-older-incarnation"}
			w.restoreLease(old)
		},
	}
}

// restoreLease creates a Lease that has existed before.
func (w *world) restoreLease(l *coordinationv1.Lease) {
	w.t.Helper()
	_, err := w.leases().Create(w.t.Context(), l, metav1.CreateOptions{})
	must(w.t, err)
}

// An administrator deletes or overwrites the Lease of a replica. The incarnation ends, and the replica continues with
// another one. No two gates of a shard are open at a time.
func TestReplica_LeaseOfAnAdministrator(t *testing.T) {
	t.Parallel()
	for name, change := range changesOfAnAdministrator() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fewShards)
			requests := &counting{name: "b"}
			a, b := w.start("a"), w.start("b", requests.wrap)
			w.expectShared(a, b)
			before, began, sent := w.incarnation("a"), time.Now(), requests.therest.Load()
			change(w)
			eventually(t, "another incarnation that renews", func() bool {
				now := w.incarnation("a")
				return now != "" && now != before && now != "an-administrator" && now != "an-old-incarnation"
			})
			w.expectShared(a, b)
			gap, moves := w.longestGap(began)
			t.Logf("%d shards moved, the longest time without an open gate is %s, with a duration of %s", moves, gap, quick().Duration)
			if gap > quick().Duration+late {
				t.Errorf("a shard had no open gate for %s", gap)
			}
			if n := requests.therest.Load() - sent; n > 30*fewShards {
				t.Errorf("b has sent %d requests: it waits for the end of another incarnation without a pause", n)
			}
		})
	}
}

// The replica whose Lease an administrator changes has no contact, so that its gate is open until the deadline. Another
// replica takes its shards later.
func TestReplica_LeaseOfAnAdministratorWithoutContact(t *testing.T) {
	t.Parallel()
	for name, change := range changesOfAnAdministrator() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fewShards)
			a, b := w.start("a"), w.start("b")
			w.expectShared(a, b)
			w.awaitRenewals("a")
			began := time.Now()
			a.set(fault.Blackhole())
			change(w)
			w.expectShared(b)
			gap, moves := w.longestGap(began)
			t.Logf("%d shards moved after %s, the longest time without an open gate is %s, with a duration of %s",
				moves, time.Since(began), gap, quick().Duration)
			if moves == 0 || gap > quick().Duration+late {
				t.Errorf("%d shards moved, and one had no open gate for %s", moves, gap)
			}
			a.set(fault.Pass())
			w.expectShared(a, b)
		})
	}
}

// The Lease of a replica is replaced by one that belongs to something else. The replica cannot renew it, and others take its
// shards.
func TestReplica_LeaseOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fewShards)
	a, b := w.start("a", func(o *Options) { o.LeaveTimeout = o.Timing.Duration }), w.start("b")
	w.expectShared(a, b)
	w.deleteLease("a")
	w.createLease("a", "")
	w.expectShared(b)
	if n := a.held(); n > 0 {
		t.Errorf("%d gates of the replica without a Lease are open", n)
	}
}

// The Lease of a replica that was fenced, and of one that has left, says which incarnation has ended.
func TestReplica_EndedIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fewShards)
	a, b := w.start("a"), w.start("b")
	w.expectShared(a, b)
	a.set(fault.Refuse())
	before := w.incarnation("a")
	eventually(t, "the Lease of a fenced replica says that it has ended", func() bool {
		l := w.lease("a")
		return l.Annotations[annotationEnded] == before && w.incarnation("a") == ""
	})
	w.expectShared(b)
	a.set(fault.Pass())
	w.expectShared(a, b)
	c := w.startUnhurried("c")
	w.awaitRenewals("c")
	last := w.incarnation("c")
	must(t, c.end())
	if ended := w.lease("c").Annotations[annotationEnded]; ended != last || w.incarnation("c") != "" {
		t.Errorf("after a release the Lease says that %q has ended, want %q", ended, last)
	}
}

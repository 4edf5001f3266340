// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A replica that leaves while the API server is away drains everything, and ends within the limit.
func TestReplica_LeaveWithoutContact(t *testing.T) {
	fleettest.Slow(t, "nothing: the limit of a leave without contact takes seconds")
	t.Parallel()
	w := newInstallation(t, fewShards)
	a := w.start("a", func(o *Options) { o.LeaveTimeout = 6 * time.Second })
	w.expectShared(a)
	a.set(fault.Blackhole())
	began := time.Now()
	if err := a.end(); err == nil {
		t.Error("Run returns no error, although nothing can be released")
	}
	t.Logf("left after %s", time.Since(began))
	a.expectCold()
}

// A replica without progress does not renew its Lease: another replica gets its shards, until it makes progress again.
func TestReplica_NoProgress(t *testing.T) {
	t.Parallel()
	w, a, b := startPair(t)
	a.stuck.Store(true)
	w.expectShared(b)
	a.stuck.Store(false)
	w.expectShared(a, b)
}

// A shard is not released while a write is in flight, and the other shards are.
func TestReplica_DrainWaitsForWrites(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	a := w.startUnhurried("a")
	w.expectShared(a)
	const shard = 7
	write := a.hold(shard)
	epoch := a.open[shard].Load()
	b := w.startUnhurried("b")
	left := make(chan error, 1)
	eventually(t, "some shards move to b", func() bool { return b.held() > 0 })
	go func() { left <- a.end() }()
	eventually(t, "the other shards move to b", func() bool { return b.held() == fewShards-1 })
	if got := w.record(shard); got.Epoch != epoch || shards.PodOf(got.Holder) != "a" {
		t.Errorf("the shard with a write in flight has the record %+v, want epoch %d of a", got, epoch)
	}
	if open := b.open[shard].Load(); open != 0 {
		t.Errorf("b writes to the shard in epoch %d, while a write of a is in flight", open)
	}
	close(write)
	must(t, <-left)
	w.expectShared(b)
}

// Builds and drains of apps that fail are repeated.
func TestReplica_RunnerFails(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	a := w.start("a")
	w.expectShared(a)
	b := w.build("b")
	for _, p := range []*process{a, b} {
		p.mu.Lock()
		p.failures = 5
		p.mu.Unlock()
	}
	b.run()
	w.expectShared(a, b)
	must(t, a.end())
	must(t, b.end())
	w.expectReleased()
}

// stalling is a transport whose watches deliver nothing while it is stalled, although their connections exist.
type stalling struct {
	next    http.RoundTripper
	stalled *atomic.Bool
	watches *atomic.Int64
}

func (s *stalling) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := s.next.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") != "" {
		s.watches.Add(1)
		response.Body = &stallingBody{response.Body, r, s.stalled, s.stalled.Load()}
	}
	return response, err
}

// WrappedRoundTripper returns the transport below, for client-go.
func (s *stalling) WrappedRoundTripper() http.RoundTripper { return s.next }

type stallingBody struct {
	io.ReadCloser
	request *http.Request
	stalled *atomic.Bool
	isNew   bool // began during the stall, and is not affected
}

// Read blocks during the stall, until the request is canceled.
func (b *stallingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil && !b.isNew && b.stalled.Load() {
		<-b.request.Context().Done()
		return 0, b.request.Context().Err()
	}
	return n, err
}

// A watch that delivers nothing is replaced: the replica notices that another one has left.
func TestReplica_SilentWatch(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	var stalled atomic.Bool
	var watches atomic.Int64
	a, b := w.start("a"), w.start("b", func(o *Options) {
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &stalling{next, &stalled, &watches} })
	})
	w.expectShared(a, b)
	before := watches.Load()
	stalled.Store(true)
	must(t, a.end())
	w.expectShared(b)
	if watches.Load() == before {
		t.Error("b has not replaced its silent watch")
	}
}

// A replica with another number of shards, or another protocol, does not start.
func TestReplica_DoesNotFit(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	a := w.start("a")
	w.expectShared(a)
	must(t, a.end())
	testkit.ErrorIs(t, w.start("b", func(o *Options) { o.Count = fewShards + 1 }).wait(), ErrCount, "with another number of shards")
	w.changeInstallation(keyProtocol, "2")
	testkit.ErrorIs(t, w.start("b").wait(), ErrProtocol, "with a later protocol")
	w.changeInstallation(keyProtocol, "")
	testkit.ErrorIs(t, w.start("b").wait(), ErrProtocol, "with an earlier protocol")
}

// The assigner replaces an assignment that was deleted, and an assignment that names no live replica. The next replica creates an
// installation again that was deleted, with the records that exist.
func TestReplica_AssignmentIsRestored(t *testing.T) {
	t.Parallel()
	w, a, b := startPair(t)
	w.drain("b", true)
	w.expectShared(a)
	w.deleteMap(assignmentName)
	eventually(t, "an assignment with the wish of the administrator", func() bool {
		now := w.assignment()
		return len(now.names) == fewShards+1 && now.drained["b"]
	})
	w.drain("b", false)
	w.expectShared(a, b)
	w.writeAssignment(assignment{names: make([]string, fewShards+1), assigner: "unknown"})
	eventually(t, "an assigner and replicas for all shards", func() bool {
		now := w.assignment()
		pod := shards.PodOf(now.assigner)
		return (pod == "a" || pod == "b") && !slices.Contains(now.names, "")
	})
	w.expectShared(a, b)
	w.deleteMap(installationName)
	w.expectShared(a, b, w.start("c"))
}

// The assigner removes the Lease of a replica that has ended a while ago, unless it is in a record.
func TestReplica_LeaseInARecordStays(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, 1)
	a := w.start("a", func(o *Options) { o.ForgetAfter = time.Second })
	w.expectShared(a)
	const warm, gone, expired = "warm-0123456789ab", "gone-0123456789ab", "expired-0123456789ab"
	w.createLease(warm, labelReplica, "")
	w.annotate(recordName(1), annotationWarm, warm)
	w.createLease(gone, labelReplica, "")
	w.createLease(expired, labelReplica, expired)
	eventually(t, "the Leases that are in no record are removed", func() bool { return !w.hasLease(gone) && !w.hasLease(expired) })
	w.awaitRenewals("a")
	if !w.hasLease(warm) {
		t.Error("the Lease that is in a record is removed")
	}
}

func (w *installation) changeInstallation(key, value string) {
	w.t.Helper()
	maps := w.kube.CoreV1().ConfigMaps(w.namespace)
	m, err := maps.Get(w.t.Context(), installationName, metav1.GetOptions{})
	must(w.t, err)
	m.Data[key] = value
	_, err = maps.Update(w.t.Context(), m, metav1.UpdateOptions{})
	must(w.t, err)
}

// A record that an administrator deletes stays, because of its finalizer. Its holder writes a record again that is deleted without
// it, that cannot be decoded, that has lost what makes it a record, or that was set back to an earlier epoch, and keeps the shard.
func TestReplica_DamagedRecord(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, 1)
	a := w.startUnhurried("a")
	w.expectShared(a)
	must(t, a.end()) // The record has a past.
	a = w.startUnhurried("a")
	w.expectShared(a)
	name, want := recordName(1), w.record(1)
	w.deleteLease(name)
	if !w.hasLease(name) {
		t.Fatal("a deletion removes a record at once")
	}
	for _, damage := range []struct {
		what string
		do   func()
	}{
		{"deleted", func() { w.removeFinalizers(name) }},
		{"not decodable", func() { w.overwriteHolder(name, "nonsense") }},
		{"without its label", func() { w.change(name, patch{"metadata": map[string]any{"labels": nil, "finalizers": nil}}) }},
		{"of another number of shards", func() { w.annotate(name, annotationCount, "7") }},
		{"set back", func() {
			w.change(name, patch{"spec": map[string]any{"holderIdentity": "gone-0123456789ab", "leaseTransitions": 1}})
		}},
	} {
		damage.do()
		eventually(t, "the holder writes the record again that is "+damage.what, func() bool {
			l, err := w.leases().Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return false
			}
			_, now, err := decodeRecord(l, 1)
			now.Version = want.Version
			return err == nil && now == want && slices.Contains(l.Finalizers, finalizerRecord)
		})
		if a.open[1].Load() != want.Epoch {
			t.Errorf("the holder of a record that is %s has epoch %d, want %d", damage.what, a.open[1].Load(), want.Epoch)
		}
	}
	must(t, a.end())
	w.expectReleased()
}

// The response to a write that arrives after the event of a later damage, or deletion, does not hide it.
func TestLife_LateResponse(t *testing.T) {
	t.Parallel()
	for what, see := range map[string]func(*life, *coordinationv1.Lease){
		"damaged": func(l *life, record *coordinationv1.Lease) {
			record.Annotations[annotationCount] = "7"
			l.see(record)
		},
		"deleted":              func(l *life, record *coordinationv1.Lease) { must(t, (&feed{life: l}).Delete(record)) },
		"missing in the list":  func(l *life, _ *coordinationv1.Lease) { l.seeMissing(recordName(1), "3") },
		"of an earlier holder": func(l *life, record *coordinationv1.Lease) { setRecord(record, 1, shards.Record{}); l.see(record) },
	} {
		r, err := New(Options{Config: &rest.Config{}, Namespace: "hub", Pod: "a", Count: 1, Runner: &process{}})
		must(t, err)
		l := newLife(r)
		l.machine.Renewed(shards.Lease{Held: true}, present())
		record := func(version string) *coordinationv1.Lease {
			made := newRecord(1, 1, shards.Record{Holder: l.me, Epoch: 1})
			made.ResourceVersion = version
			return made
		}
		l.see(record("1"))
		see(l, record("3"))
		l.see(record("2"))
		if actions := l.machine.Decide(present()); len(actions) != 1 || actions[0].Kind != shards.Repair {
			t.Errorf("a record is %s: the holder does %+v, want a repair", what, actions)
		}
	}
}

// Finalizers, labels and annotations of others stay in a record that changes its holder.
func TestReplica_KeepsWhatOthersWrite(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, 1)
	a := w.startUnhurried("a")
	w.expectShared(a)
	w.annotate(recordName(1), "example.com/note", "text")
	must(t, a.end())
	l := w.lease(recordName(1))
	if l.Annotations["example.com/note"] != "text" || !slices.Contains(l.Finalizers, finalizerRecord) {
		t.Errorf("after a release the record has %v and %v", l.Annotations, l.Finalizers)
	}
	if _, r, err := decodeRecord(l, 1); err != nil || r.Epoch != 1 || r.Holder != "" {
		t.Errorf("got %+v and %v, want a free record of epoch 1", r, err)
	}
}

// A record that an administrator deletes when its holder is cut off is created again by another replica that saw the deletion, after
// the end of the holder, also that of what runs once.
func TestReplica_DeletedRecord(t *testing.T) {
	t.Parallel()
	w, a, b := startPair(t)
	w.awaitRenewals("a")
	a.set(fault.Blackhole())
	terms := map[int]int64{}
	for shard := range w.uids {
		if before := w.record(shard); shards.PodOf(before.Holder) == "a" {
			terms[shard] = before.Epoch
			w.removeFinalizers(recordName(shard))
			w.deleteLease(recordName(shard))
		}
	}
	w.expectShared(b)
	for shard, term := range terms {
		if r := w.record(shard); shards.PodOf(r.Holder) != "b" || r.Epoch != term+1 {
			t.Errorf("shard %d has the record %+v, want one of b with the term %d", shard, r, term+1)
		}
	}
	a.set(fault.Pass())
	w.expectShared(a, b)
}

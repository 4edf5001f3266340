// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func patient(o *Options) {
	o.Timing = shards.Timing{Duration: time.Hour, Deadline: time.Hour / 2, Retry: time.Second}
}

// own is a new Lease of a replica of this name, for a write.
func own(name string, to shards.Lease) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
	setLease(l, to)
	describe(l, &Options{Pod: name, Labels: map[string]string{"place": "north", "size": ""}, Timing: quick()}, 0)
	return l
}

// Each write of the protocol fails if the object has changed, is missing, or exists already.
func TestStore_CompareAndSwap(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, 1)
	s, ctx := w.build("a", patient).store, t.Context()
	lease := shards.Lease{Held: true, Renewed: time.Now()}
	first, err := s.renewals.createLease(ctx, own("a", lease))
	must(t, err)
	record, err := s.others.createLease(ctx, newRecord(0, 1, shards.Record{}))
	must(t, err)
	wish, err := s.others.putMap(ctx, encodeAssignment(assignment{names: []string{"a"}, assigner: "a"}), "")
	must(t, err)
	w.annotate("a", "example.com/change", "yes")
	w.annotate(recordName(0), "example.com/change", "yes")
	w.writeAssignment(assignment{names: []string{"b"}, assigner: "b"})

	missing, renewed, taken := first.DeepCopy(), first.DeepCopy(), record.DeepCopy()
	missing.Name = "b"
	setLease(renewed, shards.Lease{Held: true, Renewed: time.Now().Add(time.Second)})
	setRecord(taken, 1, shards.Record{Holder: "a", Epoch: 1})
	for what, write := range map[string]func() error{
		"create a Lease that exists": func() error { return testkit.Err(s.renewals.createLease(ctx, own("a", lease))) },
		"renew a changed Lease":      func() error { return testkit.Err(s.renewals.swapLease(ctx, first, renewed)) },
		"renew a missing Lease":      func() error { return testkit.Err(s.renewals.swapLease(ctx, missing, renewed)) },
		"take a changed record":      func() error { return testkit.Err(s.others.swapLease(ctx, record, taken)) },
		"delete a changed Lease":     func() error { return s.others.removeLease(ctx, "a", first.ResourceVersion) },
		"assign over another assignment": func() error {
			return testkit.Err(s.others.putMap(ctx, encodeAssignment(assignment{}), wish.ResourceVersion))
		},
		"create an assignment that exists": func() error { return testkit.Err(s.others.putMap(ctx, encodeAssignment(assignment{}), "")) },
	} {
		testkit.ErrorIs(t, write(), errConflict, what)
	}
	s.close()
}

// What is written into a record is what is read.
func TestRecord_RoundTrip(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, 1)
	s := w.build("a", patient).store
	defer s.close()
	found, err := s.others.createLease(t.Context(), newRecord(0, 1, shards.Record{}))
	must(t, err)
	const inA, inB = "a-0123456789ab", "b-0123456789ab"
	for _, want := range []shards.Record{
		{Holder: inA, Epoch: 1},
		{Holder: inA, Epoch: 1, Warm: inB, Promised: true},
		{Holder: inB, Epoch: 2},
		{Epoch: 2},
	} {
		after := found.DeepCopy()
		setRecord(after, 1, want)
		found, err = s.others.swapLease(t.Context(), found, after)
		must(t, err)
		_, got, err := decodeRecord(found, 1)
		must(t, err)
		if want.Version = got.Version; !cmp.Equal(got, want) {
			t.Errorf("the record differs (-want +got):\n%s", cmp.Diff(want, got))
		}
	}
	if _, _, err := decodeRecord(found, 2); err == nil {
		t.Error("a record of an installation with another number of shards is accepted")
	}
	found.Spec.HolderIdentity = new("unknown")
	if _, _, err := decodeRecord(found, 1); err == nil {
		t.Error("a holder that is not the Lease of a replica is accepted")
	}
}

// What is written into the Lease of a replica is what is read.
func TestLease_RoundTrip(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, 1)
	s := w.build("a", patient).store
	defer s.close()
	now := time.Now().Truncate(time.Microsecond)
	found, err := s.renewals.createLease(t.Context(), own("a", shards.Lease{Held: true, Renewed: now}))
	must(t, err)
	for i, want := range []shards.Lease{
		{Held: true, Leaving: true},
		{Held: true},
		{},
		{Ended: true},
	} {
		want.Renewed = now.Add(time.Duration(i) * time.Second)
		after := found.DeepCopy()
		setLease(after, want)
		found, err = s.renewals.swapLease(t.Context(), found, after)
		must(t, err)
		got, err := decodeLease(found)
		must(t, err)
		want.UID, want.Version = string(found.UID), found.ResourceVersion
		if !cmp.Equal(got, want) {
			t.Errorf("the Lease differs (-want +got):\n%s", cmp.Diff(want, got))
		}
		if got, north := labelsOf(found), (map[string]string{"place": "north", "size": ""}); !cmp.Equal(got, north) {
			t.Errorf("the replica has the labels %v, want %v", got, north)
		}
	}
}

// renewalTimes records when the successful renewals of a replica began, and delays their responses.
type renewalTimes struct {
	next  http.RoundTripper
	delay time.Duration
	mu    *sync.Mutex
	last  *time.Time
}

func (r *renewalTimes) RoundTrip(request *http.Request) (*http.Response, error) {
	began := time.Now()
	response, err := r.next.RoundTrip(request)
	if request.Method != http.MethodGet && err == nil && (strings.Contains(request.URL.Path, "/leases/a-") || request.Method == http.MethodPost) {
		body, err := io.ReadAll(response.Body) // A fault during the delay does not reach it.
		if err != nil {
			return nil, err
		}
		response.Body = io.NopCloser(bytes.NewReader(body))
		r.mu.Lock()
		*r.last = began
		r.mu.Unlock()
		<-time.After(r.delay)
	}
	return response, err
}

// WrappedRoundTripper returns the transport below, for client-go.
func (r *renewalTimes) WrappedRoundTripper() http.RoundTripper { return r.next }

// A renewal counts from its beginning: the API server may have had it long before the response.
func TestReplica_RenewalCountsFromItsBeginning(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, 1)
	var mu sync.Mutex
	var last time.Time
	p := w.start("a", func(o *Options) {
		o.Timing = shards.Timing{Duration: 6 * time.Second, Deadline: 3 * time.Second, Retry: 200 * time.Millisecond}
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &renewalTimes{next, time.Second, &mu, &last} })
	})
	w.expectShared(p)
	eventually(t, "a renewal", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return !last.IsZero()
	})
	p.set(fault.Refuse())
	for {
		before := time.Now()
		if _, err := p.gate(1); err != nil {
			break
		}
		mu.Lock()
		// client-go reads the transport's time a moment later than the replica reads its own.
		if age := before.Sub(last); age > 3*time.Second+100*time.Millisecond && !last.IsZero() {
			t.Errorf("the gate is open %s after the beginning of the last renewal", age)
		}
		mu.Unlock()
		<-time.After(time.Millisecond)
	}
	p.set(fault.Pass())
}

func TestNew_Refuses(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, 1)
	for what, change := range map[string]func(*Options){
		"no Config":                func(o *Options) { o.Config = nil },
		"no Runner":                func(o *Options) { o.Runner = nil },
		"no namespace":             func(o *Options) { o.Namespace = "" },
		"no name":                  func(o *Options) { o.Pod = "" },
		"the name of a record":     func(o *Options) { o.Pod = recordName(1) },
		"a negative count":         func(o *Options) { o.Count = -1 },
		"a negative active":        func(o *Options) { o.Active = -1 },
		"more active than shards":  func(o *Options) { o.Active = o.Count + 1 },
		"a deadline over duration": func(o *Options) { o.Timing.Deadline = time.Hour },
	} {
		o := w.build("a").options
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: got no error", what)
		}
	}
}

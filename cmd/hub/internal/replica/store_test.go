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

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func patient(o *Options) {
	o.Timing = shards.Timing{Duration: time.Hour, Deadline: time.Hour / 2, Retry: time.Second}
}

// Each write of the protocol fails if the object has changed, is missing, or exists already.
func TestStore_CompareAndSwap(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, 1)
	s, ctx := w.build("a", patient).store, t.Context()
	own := &Options{Pod: "a", Timing: quick()}
	first, err := s.createLease(ctx, s.renewals, newLease("a", own, time.Now()))
	must(t, err)
	record, err := s.createLease(ctx, s.others, newRecord(0, 1))
	must(t, err)
	wish, err := s.putMap(ctx, encodeAssignment(assignment{names: []string{"a"}, assigner: "a"}), "")
	must(t, err)
	w.annotate("a", "example.com/change", "yes")
	w.annotate(recordName(0), "example.com/change", "yes")
	w.writeAssignment(assignment{names: []string{"b"}, assigner: "b"})

	change, err := encodeRecord(shards.Record{Holder: "a", Epoch: 1, Version: record.ResourceVersion}, true)
	must(t, err)
	lease := shards.Lease{Held: true, Renewed: time.Now(), Version: first.ResourceVersion}
	for what, write := range map[string]func() error{
		"create a Lease that exists": func() error { _, err := s.createLease(ctx, s.renewals, newLease("a", own, time.Now())); return err },
		"renew a changed Lease":      func() error { _, err := s.swapLease(ctx, s.renewals, "a", encodeLease("a", lease)); return err },
		"renew a missing Lease":      func() error { _, err := s.swapLease(ctx, s.renewals, "b", encodeLease("b", lease)); return err },
		"take a changed record":      func() error { _, err := s.swapLease(ctx, s.others, recordName(0), change); return err },
		"delete a changed Lease":     func() error { return s.removeLease(ctx, "a", first.ResourceVersion) },
		"assign over another assignment": func() error {
			_, err := s.putMap(ctx, encodeAssignment(assignment{}), wish.ResourceVersion)
			return err
		},
		"create an assignment that exists": func() error { _, err := s.putMap(ctx, encodeAssignment(assignment{}), ""); return err },
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
	found, err := s.createLease(t.Context(), s.others, newRecord(0, 1))
	must(t, err)
	const inA, inB = "a-0123456789ab", "b-0123456789ab"
	for _, want := range []shards.Record{
		{Holder: inA, Epoch: 1},
		{Holder: inA, Epoch: 1, Warm: inB, Promised: true},
		{Holder: inB, Epoch: 2},
		{Epoch: 2},
	} {
		want.Version = found.ResourceVersion
		change, err := encodeRecord(want, true)
		must(t, err)
		found, err = s.swapLease(t.Context(), s.others, recordName(0), change)
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
	north := map[string]string{"place": "north", "size": ""}
	found, err := s.createLease(t.Context(), s.renewals, newLease("a", &Options{Pod: "a", Labels: north, Timing: quick()}, now))
	must(t, err)
	for _, want := range []shards.Lease{
		{Held: true, Leaving: true},
		{Held: true},
		{},
		{Ended: true},
	} {
		want.UID, want.Version, want.Renewed = string(found.UID), found.ResourceVersion, now
		found, err = s.swapLease(t.Context(), s.renewals, "a", encodeLease("a", want))
		must(t, err)
		got, err := decodeLease(found)
		must(t, err)
		if want.Version = got.Version; !cmp.Equal(got, want) {
			t.Errorf("the Lease differs (-want +got):\n%s", cmp.Diff(want, got))
		}
		if got := labelsOf(found); !cmp.Equal(got, north) {
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

// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func (w *installation) admin() client.Client {
	w.t.Helper()
	return fleettest.Client(w.t, w.cluster)
}

// drain drains a replica, or ends that wish.
func (w *installation) drain(name string, drained bool) {
	w.t.Helper()
	must(w.t, SetDrained(w.t.Context(), w.admin(), client.ObjectKey{Namespace: w.namespace, Name: name}, drained))
}

func (w *installation) survey() *Survey {
	w.t.Helper()
	s, err := ReadSurvey(w.t.Context(), w.admin(), w.namespace)
	must(w.t, err)
	return s
}

// A drained replica hands over all its shards. If all live replicas are drained, the wish is ignored, also for the shards of a replica that ends.
func TestReplica_AllDrained(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	a, b := w.startUnhurried("a"), w.startUnhurried("b")
	w.expectShared(a, b)
	w.drain("b", true)
	w.expectShared(a)
	eventually(t, "a replica observes one that is drained", func() bool {
		o, ok := a.Observe()
		return ok && o.Drained == 1 && len(o.Live) == 2
	})
	w.drain("a", true)
	w.expectShared(a, b)
	must(t, a.end())
	w.expectShared(b)
}

// conflict is what happens in front of one renewal of a replica, and the status of the response to it.
type conflict struct {
	lease  string
	before func() error
	armed  atomic.Bool
	status atomic.Int64
}

// conflicting is a transport of a replica with a conflict.
type conflicting struct {
	next http.RoundTripper
	*conflict
}

func (c *conflicting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, "/leases/"+c.lease) || !c.armed.CompareAndSwap(true, false) {
		return c.next.RoundTrip(r)
	}
	if err := c.before(); err != nil {
		return nil, err
	}
	response, err := c.next.RoundTrip(r)
	if err == nil {
		c.status.Store(int64(response.StatusCode))
	}
	return response, err
}

// WrappedRoundTripper returns the transport below, for client-go.
func (c *conflicting) WrappedRoundTripper() http.RoundTripper { return c.next }

// The wish of an administrator that is written during a renewal lets the renewal fail. The replica reads its Lease and renews
// it in the same incarnation, its gates stay open, and the wish stays.
func TestReplica_DrainDuringRenewal(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	admin, key := w.admin(), client.ObjectKey{Namespace: w.namespace, Name: "a"}
	c := &conflict{lease: key.Name, before: func() error { return SetDrained(t.Context(), admin, key, true) }}
	a := w.startUnhurried("a", func(o *Options) {
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &conflicting{next, c} })
	})
	w.expectShared(a)
	incarnation, records := w.incarnation("a"), w.survey().Holders
	c.armed.Store(true)
	eventually(t, "a renewal that is in conflict with the wish", func() bool { return c.status.Load() == http.StatusConflict })
	w.awaitRenewals("a")
	if now := w.incarnation("a"); now != incarnation || a.held() != fewShards {
		t.Errorf("after the conflict, the replica has the incarnation %q and holds %d shards, want %q", now, a.held(), incarnation)
	}
	s := w.survey()
	if len(s.Members) != 1 || !s.Members[0].Lease.Drained {
		t.Errorf("the renewals have removed the wish: %+v", s.Members)
	}
	for shard, holder := range s.Holders {
		if holder != records[shard] {
			t.Errorf("shard %d has moved from %v to %v", shard, records[shard], holder)
		}
	}
}

// A Survey says what the objects say, names what it cannot decode, and tells a hub that is not sharded.
func TestReadSurvey(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, 2)
	testkit.ErrorIs(t, testkit.Err(ReadSurvey(t.Context(), w.admin(), w.namespace)), ErrNotSharded, "without an installation")
	a := w.startUnhurried("a")
	w.expectShared(a)
	s := w.survey()
	me := shards.Holder{Name: "a", Incarnation: w.incarnation("a")}
	if len(s.Holders) != 2 || s.Holders[0] != me || s.Holders[1] != me || s.Leader != "a" || len(s.Members) != 1 || s.Members[0].Name != "a" {
		t.Errorf("got %+v", s)
	}
	if m := s.Members[0]; m.IsOver(m.Lease.Renewed.Add(m.Duration-time.Millisecond)) || !m.IsOver(m.Lease.Renewed.Add(m.Duration)) {
		t.Errorf("a Lease is over at another moment than its duration after the last renewal: %+v", m)
	}
	must(t, a.end())
	if s = w.survey(); s.Holders[0] != (shards.Holder{}) || !s.Members[0].IsOver(time.Now()) {
		t.Errorf("after the end of the replica: got %+v", s)
	}
	w.annotate(recordName(1), annotationCount, "7")
	if s, err := ReadSurvey(t.Context(), w.admin(), w.namespace); s == nil || !errors.Is(err, ErrCount) || !strings.Contains(err.Error(), recordName(1)) {
		t.Errorf("with a record that cannot be decoded: got %+v and %v", s, err)
	}
}

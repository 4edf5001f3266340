// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fault"
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
	_, err := Drain{Client: w.admin(), Namespace: w.namespace, Pod: name}.Set(w.t.Context(), drained)
	must(w.t, err)
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

// The wish of an administrator names the Pod: after a kill of the process, the next one in the Pod gets no shard. The assigner that
// writes the assignment leaves the wish.
func TestReplica_DrainedPodRestarts(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	a, b := w.start("a"), w.start("b", func(o *Options) { o.LeaveTimeout = o.Timing.Duration })
	w.expectShared(a, b)
	w.drain("b", true)
	w.expectShared(a)
	b.set(fault.Refuse()) // It is dead for all others.
	again := w.start("b")
	c := w.start("c")
	w.expectShared(a, c)
	w.awaitRenewals("c")
	if n := again.held(); n > 0 {
		t.Errorf("the next process in the drained Pod has %d shards", n)
	}
	w.drain("b", false)
	w.expectShared(a, again, c)
}

// A Survey says what the objects say, and names what it cannot decode.
func TestReadSurvey(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, 2)
	testkit.ErrorIs(t, testkit.Err(ReadSurvey(t.Context(), w.admin(), w.namespace)), ErrNoReplicas, "without an installation")
	a := w.startUnhurried("a")
	w.expectShared(a)
	s := w.survey()
	me := w.incarnation("a")
	if !slices.Equal(s.Holders, []string{me, me, me}) || len(s.Members) != 1 || s.Members[0].Name != me {
		t.Errorf("got %+v", s)
	}
	if m := s.Members[0]; m.IsOver(m.Lease.Renewed.Add(m.Duration-time.Millisecond)) || !m.IsOver(m.Lease.Renewed.Add(m.Duration)) {
		t.Errorf("a Lease is over at another moment than its duration after the last renewal: %+v", m)
	}
	must(t, a.end())
	if s = w.survey(); s.Holders[0] != "" || !s.Members[0].IsOver(time.Now()) {
		t.Errorf("after the end of the replica: got %+v", s)
	}
	w.annotate(recordName(1), annotationCount, "7")
	if s, err := ReadSurvey(t.Context(), w.admin(), w.namespace); s == nil || !errors.Is(err, ErrCount) || !strings.Contains(err.Error(), recordName(1)) {
		t.Errorf("with a record that cannot be decoded: got %+v and %v", s, err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

type candidate struct {
	*leadership
	t      *testing.T
	stuck  atomic.Bool // it makes no progress
	finish func()      // of the leadership, once
}

// electionOf returns an election of the test's own, whose periods are short.
func electionOf(t *testing.T) Election {
	t.Helper()
	return Election{
		Namespace: metav1.NamespaceDefault, ID: strings.ToLower(strings.ReplaceAll(t.Name(), "_", "-")),
		LeaseDuration: 4 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 100 * time.Millisecond,
	}
}

// stand starts a leadership whose work may take a time to end.
func stand(t *testing.T, c *fleet.Cluster, identity string, within time.Duration) *candidate {
	t.Helper()
	o := Options{Config: c.Config(), Log: testLog(t), Election: electionOf(t), identity: identity}
	o.Registry.Limits.StopTimeout = within
	one := &candidate{t: t}
	var err error
	one.leadership, err = newLeadership(o, func() error {
		if one.stuck.Load() {
			return errors.New("no progress")
		}
		return nil
	})
	must(t, err)
	testkit.ErrorIs(t, one.Check(), registry.ErrStandby, "before the start")
	one.start(later(t))
	one.finish = sync.OnceFunc(func() { one.leadership.finish(later(t)) })
	t.Cleanup(one.finish)
	return one
}

func (c *candidate) await() (leads context.Context, ended func()) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	leads, ended, err := c.Await(ctx)
	must(c.t, err)
	must(c.t, c.Check())
	return leads, ended
}

// expectLost waits until a leadership of the candidate ends because it is lost.
func (c *candidate) expectLost(leads context.Context) {
	c.t.Helper()
	testkit.Closed(c.t, "the leadership ends", leads.Done())
	if !errors.Is(context.Cause(leads), registry.ErrStandby) {
		c.t.Errorf("the leadership ended with %v, want ErrStandby", context.Cause(leads))
	}
	c.expectShut()
}

func (c *candidate) lose() {
	c.t.Helper()
	leads, ended := c.await()
	ended()
	c.stuck.Store(true)
	c.expectLost(leads)
	c.stuck.Store(false)
}

func (c *candidate) expectShut() {
	c.t.Helper()
	testkit.ErrorIs(c.t, c.Check(), registry.ErrStandby)
}

func holderOf(t *testing.T, c *fleet.Cluster) string {
	t.Helper()
	hub := fleettest.Client(t, c)
	var lease coordinationv1.Lease
	must(t, hub.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: roles.LeaderLease(electionOf(t).ID)}, &lease))
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// Of two replicas one leads. If it renews no longer, its leadership ends and then the other leads; it is a candidate again when
// its work has ended, with the same lease and another candidacy. A replica that finishes gives the lease back.
func TestLeadership_OneAfterTheOther(t *testing.T) {
	t.Parallel()
	server := fleettest.Cluster(t, "hub")
	first := stand(t, server, "first", patience)
	leads, ended := first.await()
	second := stand(t, server, "second", patience)
	second.expectShut()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the caller has ended"))
	if _, _, err := second.Await(ctx); err == nil || err.Error() != "the caller has ended" {
		t.Errorf("got %v, want the cause of the context", err)
	}
	if leads.Err() != nil {
		t.Error("the leadership has ended before it was lost")
	}

	first.stuck.Store(true)
	was := first.candidacy.Load()
	first.expectLost(leads)
	second.expectShut() // Others wait for longer than the deadline of the first.
	leadsToo, endedToo := second.await()
	first.stuck.Store(false)
	first.expectShut()
	if first.candidacy.Load() != was {
		t.Error("the first replica is a candidate again although its work has not ended")
	}
	ended()
	testkit.Until(t, "the first replica is a candidate again", func() bool { return first.candidacy.Load() != was })
	first.expectShut()

	endedToo()
	begin := time.Now()
	second.finish()
	second.expectLost(leadsToo)
	again, endedAgain := first.await()
	if took := time.Since(begin); took > 3*time.Second { // The lease would expire after 4 s.
		t.Errorf("the lease that was given back is acquired after %s", took)
	}
	if again == leads || again.Err() != nil {
		t.Error("the second leadership has the context of the first, or has ended")
	}
	endedAgain()
	first.finish()
	if got := holderOf(t, server); got != "" {
		t.Errorf("the lease is held by %q at the end, want no holder", got)
	}
}

// Work that does not end in time keeps neither the leadership nor the candidate. At the end such work keeps the lease from
// being given back.
func TestLeadership_WorkDoesNotEnd(t *testing.T) {
	t.Parallel()
	server := fleettest.Cluster(t, "hub")
	one := stand(t, server, "one", 200*time.Millisecond)
	leads, ended := one.await()
	one.stuck.Store(true)
	one.expectLost(leads)
	one.stuck.Store(false)
	leads, _ = one.await()
	ended() // of the first leadership
	ended()
	one.finish()
	one.expectLost(leads)
	if got := holderOf(t, server); got != "one" {
		t.Errorf("the lease is held by %q although work has not ended, want one", got)
	}
}

// A replica that finishes keeps the lease until its work has ended: the work may take longer than a renewal is good for.
func TestLeadership_FinishWaits(t *testing.T) {
	t.Parallel()
	server := fleettest.Cluster(t, "hub")
	one := stand(t, server, "one", patience)
	leads, ended := one.await()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		one.finish()
	}()
	testkit.Closed(t, "the leadership ends", leads.Done())
	since := time.Now()
	eventually(t, func() error { // for longer than the deadline of renewals
		if time.Since(since) < 3*time.Second {
			return errors.New("wait")
		}
		return one.Check()
	})
	if got := holderOf(t, server); got != "one" {
		t.Errorf("the lease is held by %q while work has not ended, want one", got)
	}
	ended()
	testkit.Closed(t, "the replica ends", finished)
	one.expectShut()
	if got := holderOf(t, server); got != "" {
		t.Errorf("the lease is held by %q at the end, want no holder", got)
	}
}

// Many components wait, and each learns of each leadership.
func TestLeadership_ManyWaiters(t *testing.T) {
	t.Parallel()
	one := stand(t, fleettest.Cluster(t, "hub"), "one", patience)
	var waiters sync.WaitGroup
	var learned atomic.Int64
	for range 20 {
		waiters.Go(func() {
			for range 2 {
				leads, ended := one.await()
				learned.Add(1)
				<-leads.Done()
				ended()
			}
		})
	}
	for i := range int64(2) {
		eventually(t, func() error {
			if got := learned.Load(); got != 20*(i+1) {
				return fmt.Errorf("%d waiters have learned of it", got)
			}
			return nil
		})
		one.lose()
	}
	waiters.Wait()
}

// SPDX-License-Identifier: Apache-2.0

package entity_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// external is a reconciler whose orders are in a system that reports no changes.
type external struct {
	entity.Reconciler[order]
	observed, cleaned atomic.Int64
	running, hangs    atomic.Int64
	differs, fails    atomic.Bool
}

func (x *external) Reconcile(ctx context.Context, e *entity.Entity[order], s *entity.Secondaries) (entity.Report, error) {
	x.running.Add(1)
	defer x.running.Add(-1)
	return x.Reconciler.Reconcile(ctx, e, s)
}

func (x *external) Observe(ctx context.Context, e *entity.Entity[order]) (bool, error) {
	if e.Key == "hangs" {
		x.hangs.Add(1)
		<-ctx.Done()
		return false, nil
	}
	x.observed.Add(1)
	if x.fails.Load() {
		return false, errBroken
	}
	return x.differs.Load(), nil
}

func (x *external) Clean(context.Context) error {
	x.cleaned.Add(1 + 100*x.running.Load())
	return nil
}

// D8: an external system is observed from time to time, and the order is reconciled if it differs, or if that cannot be found out. When
// the controller ends, Clean is called once, after the last reconcile.
// Promise: the end: the queue drains, then Clean.
func TestD8_Observer(t *testing.T) {
	t.Parallel()
	x := &external{}
	s := beginWith(t, func(s *stage) {
		s.resync = 300 * time.Millisecond
		s.adapt = func(o *entity.Options, r entity.Reconciler[order], _ func(string) *bucket.Bucket) entity.Reconciler[order] {
			x.Reconciler = r
			o.ObserveWithin = time.Second
			return x
		}
	})
	s.put(t, "a", value("1"))
	s.waitPart(t, "a", "Made")
	s.put(t, "hangs", value("1"))
	more := func(counter *atomic.Int64, n int64) {
		t.Helper()
		want := counter.Load() + n
		testkit.Eventually(t, func() error {
			if got := counter.Load(); got < want {
				return fmt.Errorf("got %d, want %d", got, want)
			}
			return nil
		})
	}
	more(&x.observed, 3)
	more(&x.hangs, 2) // A call that hangs ends, and keeps no other one waiting.
	more(&x.observed, 3)
	testkit.Must(t, s.kv.Delete(t.Context(), "hangs"))
	s.waitGone(t, "hangs")
	before := s.reconciles.Load()
	more(&x.observed, 5)
	if after := s.reconciles.Load(); after != before {
		t.Errorf("%d reconciles of an order that does not differ", after-before)
	}
	x.differs.Store(true)
	more(&s.reconciles, 2)
	x.differs.Store(false)
	x.fails.Store(true)
	more(&s.reconciles, 2)
	s.stop()
	testkit.Equal(t, x.cleaned.Load(), 1, "Clean")
}

// D7: events about an order are recorded on an anchor object, and are published on a subject of NATS.
// Promise: events about entities are recorded on their objects, on an anchor, and on a subject.
func TestD7_AnchorAndSubject(t *testing.T) {
	t.Parallel()
	var published atomic.Int64
	s := beginWith(t, func(s *stage) {
		anchor := s.configMap("anchor", nil)
		testkit.Must(t, s.remote.Create(t.Context(), anchor))
		conn, _ := nats.Connect(t, s.server.URL())
		messages, err := conn.SubscribeSync("events.orders.>")
		testkit.Must(t, err)
		testkit.Must(t, conn.Flush())
		t.Cleanup(func() { _ = messages.Unsubscribe() })
		go func() {
			for {
				m, err := messages.NextMsgWithContext(t.Context())
				if err != nil {
					return
				}
				var e entity.Event
				if json.Unmarshal(m.Data, &e) == nil && m.Subject == "events.orders.a" && e.Key == "a" && e.Cluster == "remote" && e.Reason == "Synced" {
					published.Add(1)
				}
			}
		}()
		s.adapt = func(o *entity.Options, r entity.Reconciler[order], _ func(string) *bucket.Bucket) entity.Reconciler[order] {
			o.EventsAbout, o.EventSubject = anchor, "events.orders"
			return r
		}
	})
	s.put(t, "a", value("1"))
	s.wait(t, "a", "1")
	s.controller.Event(nil, entity.Event{Key: "a", Type: "Warning", Reason: "Late", Message: "the order is late"})
	testkit.Eventually(t, func() error {
		var all eventsv1.EventList
		if err := s.remote.List(t.Context(), &all); err != nil {
			return err
		}
		found := map[string]bool{}
		for _, e := range all.Items {
			if e.Regarding.Namespace == s.namespace && e.Regarding.Name == "anchor" {
				found[e.Reason] = true
			}
		}
		if !found["Synced"] || !found["Late"] {
			return fmt.Errorf("the anchor has the events %v", found)
		}
		if published.Load() == 0 {
			return errors.New("no event was published")
		}
		return nil
	})
}

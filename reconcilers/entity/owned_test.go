// SPDX-License-Identifier: Apache-2.0

package entity_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// invoice is the value of the secondaries in another bucket.
type invoice struct {
	Total string `json:"total"`
}

// counting is a Limiter that holds deletes without evidence beyond a limit.
type counting struct {
	mu                              sync.Mutex // protects the fields
	limit, deleted, created, unsure int
	owned                           int    // the largest number that was declared
	cause, resource                 string // of the last delete
}

func (l *counting) Admit(ctx context.Context, what schema.GroupResource, _ string, uid types.UID) (func(bool), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, isDeclared := deletes.EvidenceOf(ctx); isDeclared {
		return func(bool) {}, nil
	}
	l.owned, l.cause, l.resource = max(l.owned, deletes.OwnedIn(ctx)), deletes.CauseIn(ctx), what.String()
	if l.deleted >= l.limit || uid == "" {
		return nil, &deletes.HeldError{Reason: deletes.LimitExceeded, Err: errBroken}
	}
	l.deleted++
	l.unsure++
	return func(deleted bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.unsure--
		if !deleted {
			l.deleted--
		}
	}, nil
}

func (l *counting) Created(context.Context, schema.GroupResource) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.created++
}

// allow sets the limit.
func (l *counting) allow(limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = limit
}

// wait waits for what is counted.
func (l *counting) wait(t *testing.T, want string) {
	t.Helper()
	testkit.Eventually(t, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		got := fmt.Sprintf("%d created, %d deleted, %d unsure, of %s for %q", l.created, l.deleted, l.unsure, l.resource, l.cause)
		if got != want {
			return fmt.Errorf("%s, want %s", got, want)
		}
		return nil
	})
}

// invoicing is a stage whose orders have an invoice each.
type invoicing struct {
	*stage
	invoices jetstream.KeyValue
	limiter  counting
}

func beginInvoicing(t *testing.T) *invoicing {
	t.Helper()
	s := &invoicing{limiter: counting{limit: 10}}
	s.stage = beginWith(t, func(inner *stage) {
		s.invoices = nats.Bucket(t, inner.js, "invoices")
		inner.adapt = func(o *entity.Options, _ entity.Reconciler[order], follow func(string) *bucket.Bucket) entity.Reconciler[order] {
			store := entity.NewStore(follow("invoices"), entity.JSON[invoice](nil))
			o.OwnsEntities, o.Deletes = []entity.Owned{entity.OwnsStore(store)}, &s.limiter
			return entity.Func[order](func(ctx context.Context, e *entity.Entity[order], out *entity.Secondaries) (entity.Report, error) {
				key := e.Key + ".invoice"
				if e.Value.Data["k"] == "free" {
					return entity.Report{Ready: true, Reason: "Free"}, entity.DeleteEntities(ctx, out, store)
				}
				err := entity.PutEntity(ctx, out, store, entity.Entity[invoice]{Key: key, Value: invoice{Total: e.Value.Data["k"]}})
				if errors.Is(err, entity.ErrResourceExists) {
					return entity.Report{Reason: "NameTaken"}, nil
				}
				return entity.Report{Ready: err == nil, Reason: "Made"}, err
			})
		}
	})
	return s
}

// waitInvoice waits until there is an invoice with a total; "" waits until there is none.
func (s *invoicing) waitInvoice(t *testing.T, key, total string) jetstream.KeyValueEntry {
	t.Helper()
	var found jetstream.KeyValueEntry
	testkit.Eventually(t, func() error {
		e, err := s.invoices.Get(t.Context(), key+".invoice")
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound) && total == "":
			return nil
		case err != nil:
			return err
		}
		var i invoice
		if err := json.Unmarshal(e.Value(), &i); err != nil || i.Total != total {
			return fmt.Errorf("the invoice of %s is %s, want %q", key, e.Value(), total)
		}
		found = e
		return nil
	})
	return found
}

// Entities of another bucket are secondaries: they follow the primary, are repaired, keep fields of others, and go with the primary. An
// entity of another owner is not touched.
func TestPutEntity(t *testing.T) {
	t.Parallel()
	s := beginInvoicing(t)
	s.put(t, "a", value("1"))
	made := s.waitInvoice(t, "a", "1")
	s.put(t, "a", value("2"))
	s.waitInvoice(t, "a", "2")

	var fields map[string]any
	testkit.Must(t, json.Unmarshal(made.Value(), &fields))
	fields["total"], fields["paid"] = "0", true
	edited, err := json.Marshal(fields)
	testkit.Must(t, err)
	testkit.Must(t, testkit.Err(s.invoices.Put(t.Context(), "a.invoice", edited)))
	if got := s.waitInvoice(t, "a", "2"); !strings.Contains(string(got.Value()), `"paid":true`) {
		t.Errorf("got %s, want the field of another client to stay", got.Value())
	}
	testkit.Must(t, s.invoices.Delete(t.Context(), "a.invoice"))
	s.waitInvoice(t, "a", "2")

	testkit.Must(t, testkit.Err(s.invoices.Put(t.Context(), "b.invoice", []byte(`{"total":"of another"}`))))
	s.put(t, "b", value("1"))
	s.waitPart(t, "b", "NameTaken")
	s.waitInvoice(t, "b", "of another")

	s.put(t, "a", value("free"))
	s.waitInvoice(t, "a", "")
	s.limiter.wait(t, `2 created, 1 deleted, 0 unsure, of invoices.entities.clusterfx.dev for "Order a"`)
	s.put(t, "a", value("3"))
	s.waitInvoice(t, "a", "3")
	testkit.Must(t, s.kv.Delete(t.Context(), "a"))
	testkit.Must(t, s.kv.Delete(t.Context(), "b"))
	s.waitInvoice(t, "a", "")
	s.waitInvoice(t, "b", "of another")
	s.limiter.wait(t, `3 created, 1 deleted, 0 unsure, of invoices.entities.clusterfx.dev for "Order a"`) // A marker is evidence.
}

// An entity that another client has replaced, with its mark, is repaired, and collected also if that happens while no process runs.
// Promise: a NATS secondary that another client replaces: it is repaired, and collected with its primary.
func TestPutEntity_Overwritten(t *testing.T) {
	t.Parallel()
	s := beginInvoicing(t)
	overwrite := func(key string) {
		t.Helper()
		testkit.Must(t, testkit.Err(s.invoices.Put(t.Context(), key+".invoice", []byte(`{"total":"of another"}`))))
	}
	for _, key := range []string{"live", "stopped", "gone"} {
		s.put(t, key, value("1"))
		s.waitInvoice(t, key, "1")
	}
	for range bucket.History + 1 {
		overwrite("live")
		if e := s.waitInvoice(t, "live", "1"); !strings.Contains(string(e.Value()), entity.DefaultPrefix+"/owner") {
			t.Errorf("the invoice has no mark: %s", e.Value())
		}
	}
	s.stop()
	overwrite("stopped")
	overwrite("gone")
	testkit.Must(t, s.kv.Delete(t.Context(), "gone"))
	s.process(t)
	s.waitInvoice(t, "stopped", "1")
	s.waitInvoice(t, "gone", "")
	s.waitPart(t, "stopped", "Made")
	testkit.Must(t, s.kv.Delete(t.Context(), "live"))
	s.waitInvoice(t, "live", "")
}

// A primary that is deleted and created again gets entities of its own, and one whose marker was compacted while no process ran loses
// them, within a limit: of forty, ten at once, and the others when they are allowed.
func TestPutEntity_Collects(t *testing.T) {
	t.Parallel()
	s := beginInvoicing(t)
	const orders = 40
	for i := range orders {
		s.put(t, fmt.Sprintf("o%d", i), value("1"))
	}
	for i := range orders {
		s.waitInvoice(t, fmt.Sprintf("o%d", i), "1")
	}
	s.stop()
	for i := range orders {
		testkit.Must(t, s.kv.Delete(t.Context(), fmt.Sprintf("o%d", i)))
	}
	testkit.Must(t, s.kv.PurgeDeletes(t.Context(), jetstream.DeleteMarkersOlderThan(-1)))
	s.process(t)
	left := func() int {
		n := 0
		for i := range orders {
			if _, err := s.invoices.Get(t.Context(), fmt.Sprintf("o%d.invoice", i)); err == nil {
				n++
			}
		}
		return n
	}
	testkit.Eventually(t, func() error {
		if n := left(); n > orders-10 {
			return fmt.Errorf("%d invoices are left", n)
		}
		return nil
	})
	s.put(t, "next", value("1")) // All orders were requested before it.
	s.waitInvoice(t, "next", "1")
	testkit.Equal(t, left(), orders-10, "invoices are left")
	s.limiter.allow(orders)
	for i := range orders {
		s.waitInvoice(t, fmt.Sprintf("o%d", i), "")
		all, err := s.invoices.History(t.Context(), fmt.Sprintf("o%d.invoice", i))
		testkit.Must(t, err)
		testkit.Equal(t, len(all), 2, "writes of an invoice, a creation and a deletion")
	}
	s.limiter.wait(t, `41 created, 40 deleted, 0 unsure, of invoices.entities.clusterfx.dev for ""`)
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	testkit.Equal(t, s.limiter.owned, orders, "declared as owned")
}

// Changes of what a reconciler reads request the primaries: entities of another bucket, and objects.
func TestReads(t *testing.T) {
	t.Parallel()
	var prices jetstream.KeyValue
	s := beginWith(t, func(s *stage) {
		prices = nats.Bucket(t, s.js, "prices")
		s.adapt = func(o *entity.Options, r entity.Reconciler[order], follow func(string) *bucket.Bucket) entity.Reconciler[order] {
			store := entity.NewStore(follow("prices"), entity.JSON[invoice](nil))
			o.Owns = nil
			o.Reads = append(o.Reads,
				entity.ReadsEntities(store, func(key string) []string { return []string{"of-" + key} }),
				entity.ReadsObjects(o.Manager.GetCache(), s.configMap("", nil), func(obj client.Object) []string {
					if obj.GetNamespace() != s.namespace {
						return nil
					}
					return []string{obj.GetLabels()["order"]}
				}))
			return entity.Func[order](func(_ context.Context, e *entity.Entity[order], _ *entity.Secondaries) (entity.Report, error) {
				s.reconciles.Add(1)
				price, err := store.Get("tea")
				if err != nil {
					return entity.Report{Reason: "NoPrice"}, nil //nolint:nilerr // A price requests the order.
				}
				return entity.Report{Ready: true, Reason: "Costs" + price.Value.Total}, nil
			})
		}
	})
	s.put(t, "of-tea", value("1"))
	s.waitPart(t, "of-tea", "NoPrice")
	testkit.Must(t, testkit.Err(prices.Put(t.Context(), "tea", []byte(`{"total":"3"}`))))
	s.waitPart(t, "of-tea", "Costs3")
	before := s.reconciles.Load()
	note := s.configMap("note", nil)
	note.Labels = map[string]string{"order": "of-tea"}
	testkit.Must(t, s.remote.Create(t.Context(), note))
	testkit.Eventually(t, func() error {
		if s.reconciles.Load() == before {
			return errors.New("the object requests no reconcile")
		}
		return nil
	})
}

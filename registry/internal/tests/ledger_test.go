// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/registry/state"
)

var (
	configMaps = schema.GroupResource{Resource: "configmaps"}
	start      = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// remove asks for the deletes of so many objects and returns how many were admitted.
func remove(l *ledger.Ledger, r ledger.Request, objects int, now time.Time) (admitted int) {
	r.Limits = ledger.LimitsFor(r.Resource)
	for i := range objects {
		r.Name = fmt.Sprintf("o-%d", i)
		if _, _, err := l.Admit(r, now); err == nil {
			admitted++
			if r.Owned--; r.Owned == 0 {
				return admitted
			}
		}
	}
	return admitted
}

func in(target state.ClusterName, resource schema.GroupResource) ledger.Request {
	return ledger.Request{Key: ledger.Key{Module: "quota", Resource: resource, Target: target}}
}

func TestLedger_Limits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		resource schema.GroupResource
		owned    int
		want     int
	}{
		"configmaps":                {configMaps, 0, 20},
		"namespaces":                {schema.GroupResource{Resource: "namespaces"}, 0, 3},
		"namespaces of a group":     {schema.GroupResource{Group: "example.dev", Resource: "namespaces"}, 0, 20},
		"twelve objects":            {configMaps, 12, 6},
		"one object":                {configMaps, 1, 1},
		"a thousand objects":        {configMaps, 1000, 20},
		"twelve persistent volumes": {schema.GroupResource{Resource: "persistentvolumes"}, 12, 3},
	} {
		r := in("edge", c.resource)
		r.Owned = c.owned
		if got := remove(ledger.New(), r, max(c.owned, 50), start); got != c.want {
			t.Errorf("%s: %d deletes, want %d", name, got, c.want)
		}
	}
}

// The number of owned objects may be counted once before many deletes, and again when some are gone.
func TestLedger_OwnedOnce(t *testing.T) {
	t.Parallel()
	l, gone := ledger.New(), 0
	for pass := range 5 {
		r := in("edge", configMaps)
		r.Limits, r.Owned = ledger.LimitsFor(configMaps), 12-gone // is not lowered by the deletes of this pass
		for i := range 12 {
			r.Name = fmt.Sprint(pass, i)
			if _, _, err := l.Admit(r, start); err == nil {
				gone++
			}
		}
	}
	if gone != 6 {
		t.Errorf("%d of 12 objects are deleted, want 6", gone)
	}
	later := start.Add(2 * ledger.Window)
	l.Expire(later)
	r := in("edge", configMaps)
	r.Limits, r.Owned = ledger.LimitsFor(configMaps), 6
	if left := l.Left(r, later); left != 3 {
		t.Errorf("%d of 6 objects may be deleted later, want 3", left)
	}
}

// The delete of an object counts once, also when deletes are held, and counts again if it was refused.
func TestLedger_RepeatedDelete(t *testing.T) {
	t.Parallel()
	l := ledger.New()
	one := in("edge", configMaps)
	one.Limits, one.Name, one.UID = ledger.LimitsFor(configMaps), "one", "u-1"
	first, _, err := l.Admit(one, start)
	must(t, err)
	for range 50 {
		again, _, err := l.Admit(one, start.Add(ledger.Window))
		if err != nil {
			t.Fatalf("a repeated delete: %v", err)
		}
		again.Refund(start.Add(ledger.Window)) // The object is gone by now.
	}
	testkit.Equal(t, remove(l, in("edge", configMaps), 50, start.Add(ledger.Window)), 19, "other deletes")
	if _, _, err := l.Admit(one, start.Add(ledger.Window)); err != nil {
		t.Errorf("a repeated delete while deletes are held: %v", err)
	}
	first.Refund(start.Add(ledger.Window))
	if _, _, err := l.Admit(one, start.Add(ledger.Window)); err == nil {
		t.Error("a delete that was refused is not counted again")
	}
	l = ledger.New()
	later := start.Add(3 * ledger.Window)
	if _, _, err := l.Admit(one, start); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, remove(l, in("edge", configMaps), 50, later), 20, "deletes later")
	if _, _, err := l.Admit(one, later); err == nil {
		t.Error("an object stays known after the window")
	}
}

// A delete by name counts once if its answer has a UID that counts already, and only a name that may be left repeats.
func TestTicket_Answered(t *testing.T) {
	t.Parallel()
	l, r := ledger.New(), in("edge", configMaps)
	r.Limits, r.Name = ledger.LimitsFor(configMaps), "one"
	for i := range 30 {
		ticket, _, err := l.Admit(r, start)
		if err != nil {
			t.Fatalf("delete %d: %v", i, err)
		}
		isRepeated := ticket.Answered("u-1", i > 0, start)
		if isRepeated {
			ticket.Refund(start)
		}
		if isRepeated != (i > 0) || l.Repeats(r, start) != (i > 0) {
			t.Errorf("delete %d: repeated: %t, may be left: %t", i, isRepeated, l.Repeats(r, start))
		}
	}
	later := start.Add(2 * ledger.Window)
	if l.Repeats(r, later) {
		t.Error("a name stays known after the window")
	}
	for range 20 { // Without a UID each counts.
		ticket, _, err := l.Admit(r, later)
		if err != nil || ticket.Answered("", true, later) {
			t.Fatal("an unknown object is repeated", err)
		}
	}
	if _, _, err := l.Admit(r, later); err == nil {
		t.Error("deletes of unknown objects do not count")
	}
}

// The limit of the fleet holds all targets, also those in which nothing was deleted.
func TestLedger_Fleet(t *testing.T) {
	t.Parallel()
	l, sum := ledger.New(), 0
	for i := range 10 {
		sum += remove(l, in(state.ClusterName(fmt.Sprintf("edge-%d", i)), configMaps), 15, start)
	}
	testkit.Equal(t, sum, 100, "deletes")
	var held *ledger.HeldError
	if _, _, err := l.Admit(in("other", configMaps), start); !errors.As(err, &held) || !held.Hold.Fleet {
		t.Errorf("a delete in another target: %v", err)
	}
	if got := remove(l, in("other", schema.GroupResource{Resource: "secrets"}), 1, start); got != 1 {
		t.Error("another resource is held")
	}
}

// Replacing costs nothing. What was created pays for what is deleted, for as long as both count.
func TestLedger_Replace(t *testing.T) {
	t.Parallel()
	l, now := ledger.New(), start
	for i := range 1000 {
		r := in("edge", configMaps)
		l.Created(r.Key, now)
		if remove(l, r, 1, now) != 1 {
			t.Fatalf("object %d cannot be replaced", i)
		}
		now = now.Add(time.Second)
	}
	now = now.Add(ledger.Window + ledger.Window/10)
	testkit.Equal(t, remove(l, in("edge", configMaps), 50, now), 20, "deletes later")
}

// What is created pays for nothing whose content is lost, in one target and in all.
func TestLedger_CreatesPayNothing(t *testing.T) {
	t.Parallel()
	for resource, want := range map[schema.GroupResource]int{
		{Resource: "namespaces"}: 3, {Resource: "persistentvolumes"}: 3, {Resource: "persistentvolumeclaims"}: 3,
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}: 3, {Group: "clusterfx.dev", Resource: "clusters"}: 3,
		{Group: "apps", Resource: "statefulsets"}: 20, {Resource: "secrets"}: 20, // A Secret of the hub may register a Cluster.
		{Group: "apps", Resource: "deployments"}: 40, {Group: "example.dev", Resource: "secrets"}: 40,
	} {
		l, r := ledger.New(), in("", resource)
		for range 40 {
			l.Created(r.Key, start)
		}
		if got := remove(l, r, 40, start); got != want {
			t.Errorf("%s: %d deletes after as many creates, want %d", resource, got, want)
		}
	}
}

// of returns the request with a cause.
func of(r ledger.Request, cause string) ledger.Request {
	r.Cause = cause
	return r
}

// Each cause has the limits for itself, also after a restart; all together have five times as much; and deletes without a cause have
// the limits that they have without causes.
func TestLedger_Causes(t *testing.T) {
	t.Parallel()
	l, r := ledger.New(), in("edge", configMaps)
	for i, want := range []int{20, 20, 20, 20, 20, 0} {
		if got := remove(l, of(r, fmt.Sprint("tenant-", i)), 30, start); got != want {
			t.Errorf("%d deletes of cause %d, want %d", got, i, want)
		}
	}
	testkit.Equal(t, remove(l, r, 30, start), 20, "deletes without a cause")
	causes := map[string]bool{}
	for _, h := range l.Holds() {
		causes[h.Cause] = true
	}
	if len(causes) != 7 || !causes[""] || !causes["all causes"] || causes["tenant-5"] {
		t.Errorf("the causes of the holds are %v, want five tenants, none, and all together", causes)
	}
	l, sum := ledger.New(), 0
	for i := range 600 {
		sum += remove(l, of(in(state.ClusterName(fmt.Sprint("edge-", i%50)), configMaps), fmt.Sprint("tenant-", i)), 1, start)
	}
	if sum != 500 {
		t.Errorf("600 causes deleted %d objects, want 500", sum)
	}
	l = ledger.New()
	remove(l, of(r, "one"), 30, start)
	stored := l.Holds()
	l = ledger.New()
	l.Restore(stored, start)
	if remove(l, of(r, "one"), 1, start) != 0 || remove(l, of(r, "two"), 1, start) != 1 || remove(l, r, 1, start) != 1 {
		t.Error("after a restart, the hold of a cause does not hold that cause alone")
	}
}

// What is created for any cause pays for what is deleted for another: replacing objects costs nothing.
func TestLedger_CausesReplace(t *testing.T) {
	t.Parallel()
	l, r := ledger.New(), in("edge", configMaps)
	for range 300 {
		l.Created(of(r, "new").Key, start)
	}
	if got := remove(l, of(r, "old"), 400, start); got != 320 {
		t.Errorf("%d deletes after 300 creates, want 320", got)
	}
	testkit.Equal(t, remove(l, r, 30, start), 20, "deletes without a cause")
}

// A slow loss is no loss: what was deleted more than a Window ago does not count.
func TestLedger_Slow(t *testing.T) {
	t.Parallel()
	l, now := ledger.New(), start
	for range 200 {
		if remove(l, in("edge", configMaps), 1, now) != 1 {
			t.Fatalf("held after %s", now.Sub(start))
		}
		now = now.Add(35 * time.Second)
	}
}

// A refund makes room again, and only once the delete is still counted.
func TestTicket_Refund(t *testing.T) {
	t.Parallel()
	l, r := ledger.New(), in("edge", configMaps)
	r.Limits = ledger.Limits{PerTarget: 1, PerFleet: 1}
	ticket, _, err := l.Admit(r, start)
	must(t, err)
	ticket.Refund(start.Add(time.Second))
	if ticket, _, err = l.Admit(r, start.Add(2*time.Second)); err != nil {
		t.Fatalf("after the refund: %v", err)
	}
	later := start.Add(2 * ledger.Window)
	if _, _, err := l.Admit(r, later); err != nil {
		t.Fatal(err)
	}
	ticket.Refund(later)
	if _, _, err := l.Admit(r, later); err == nil {
		t.Error("a refund of a delete that is no longer counted makes room")
	}
}

// A Hold outlives a restart and ends when the module has asked for nothing for a Window. An allowance for an old Hold has no effect.
func TestHold(t *testing.T) {
	t.Parallel()
	l, r := ledger.New(), in("edge", configMaps)
	if got := remove(l, r, 60, start); got != 20 {
		t.Fatalf("%d deletes, want 20", got)
	}
	holds := l.Holds()
	if len(holds) != 1 || holds[0].Deleted != 20 || holds[0].More != 40 || len(holds[0].Names) != 10 || holds[0].Fleet {
		t.Fatalf("holds: %+v", holds)
	}
	now := start.Add(9 * time.Minute)
	l = ledger.New()
	l.Restore(holds, now)
	if got := remove(l, r, 5, now); got != 0 {
		t.Errorf("%d deletes after a restart", got)
	}
	if ended := l.Expire(now.Add(ledger.Window - time.Second)); ended != nil {
		t.Errorf("ended early: %v", ended)
	}
	if ended := l.Expire(now.Add(ledger.Window)); len(ended) != 1 || l.Allow(ended[0].ID, 0) != nil {
		t.Errorf("ended: %v", ended)
	}
	now = now.Add(ledger.Window)
	if got := remove(l, r, 60, now); got != 20 {
		t.Errorf("%d deletes after the end of the hold", got)
	}
	if l.Allow(holds[0].ID, 1000) != nil || remove(l, r, 60, now) != 0 {
		t.Error("an allowance for the old hold has an effect")
	}
}

// An allowance admits its number of deletes once, also if it is given again or the Ledger is restarted.
func TestLedger_Allow(t *testing.T) {
	t.Parallel()
	l, r := ledger.New(), in("edge", configMaps)
	remove(l, r, 100, start)
	id := l.Holds()[0].ID
	if l.Allow(id, 7) == nil || remove(l, r, 100, start) != 7 || l.Allow(id, 7) != nil || remove(l, r, 100, start) != 0 {
		t.Error("an allowance of 7 does not admit 7")
	}
	if l.Allow(id, 5) != nil {
		t.Error("a smaller number changes the allowance")
	}
	l.Allow(id, 50)
	r.Limits = ledger.LimitsFor(configMaps)
	stored := l.Holds()[0]
	for i := range 10 {
		r.Name = fmt.Sprintf("o-%d", i)
		_, store, err := l.Admit(r, start)
		must(t, err)
		if store != nil {
			stored = *store
		}
	}
	l = ledger.New()
	l.Restore([]ledger.Held{stored}, start)
	if got := remove(l, r, 100, start); got > 33 {
		t.Errorf("%d deletes after a restart, of 33 that were left", got)
	}
	l = ledger.New()
	remove(l, r, 100, start)
	if l.Allow(l.Holds()[0].ID, 0); remove(l, r, 200, start) != 80 {
		t.Error("an allowance without a number does not admit the refused deletes")
	}
}

// Repeated requests for the same objects do not increase the number of a Hold, and allowed deletes decrease it.
func TestHold_More(t *testing.T) {
	t.Parallel()
	l, r := ledger.New(), in("edge", configMaps)
	for range 3 {
		remove(l, r, 50, start)
	}
	if h := l.Holds()[0]; h.More != 30+20 { // The first 20 exist no longer, but this module asks for them again.
		t.Errorf("the hold knows of %d objects, want 50", h.More)
	}
	l.Allow(l.Holds()[0].ID, 30)
	remove(l, r, 30, start)
	if h := l.Holds()[0]; h.More != 20 {
		t.Errorf("after 30 allowed deletes the hold knows of %d objects, want 20", h.More)
	}
}

// The end of a remote ends its Holds, and not its part in the limit of the fleet.
func TestLedger_Forget(t *testing.T) {
	t.Parallel()
	l := ledger.New()
	for i := range 5 {
		target := state.ClusterName(fmt.Sprintf("edge-%d", i))
		remove(l, in(target, configMaps), 25, start)
		if ended := l.Forget(target); len(ended) != 1 && i < 4 {
			t.Fatalf("%s: %d holds ended", target, len(ended))
		}
	}
	if got := remove(l, in("edge-5", configMaps), 20, start); got != 0 {
		t.Errorf("%d deletes beyond the limit of the fleet", got)
	}
}

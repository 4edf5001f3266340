// SPDX-License-Identifier: Apache-2.0

package deletions_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/deletions"
)

// Deletes that are no requests have the limits, evidence and holds of those that are: what was not deleted does not count, an object
// counts once, creating pays, and a person allows the held ones.
func TestLimiter(t *testing.T) {
	t.Parallel()
	guard := newGuard(deletes.Limits{
		PerTarget: 2, PerFleet: 100, Exempt: []schema.GroupResource{{Group: "entities.example.com", Resource: "notes"}},
	})
	limiter := deletions.Limiter{
		Guard: guard, Target: deletions.Target{Name: "edge"}, Context: func(ctx context.Context) context.Context { return ctx },
	}
	invoices := schema.GroupResource{Group: "entities.example.com", Resource: "invoices"}
	admit := func(ctx context.Context, name string) (func(bool), *deletes.HeldError) {
		t.Helper()
		done, err := limiter.Admit(ctx, invoices, name, types.UID(name))
		var held *deletes.HeldError
		if err != nil && !errors.As(err, &held) {
			t.Fatal(err)
		}
		return done, held
	}
	remove := func(ctx context.Context, name string) *deletes.HeldError {
		t.Helper()
		done, held := admit(ctx, name)
		if held == nil {
			done(true)
		}
		return held
	}
	pass := func(ctx context.Context, names ...string) {
		t.Helper()
		for _, name := range names {
			if held := remove(ctx, name); held != nil {
				t.Fatalf("delete %s: %v", name, held)
			}
		}
	}
	for _, name := range []string{"kept", "kept", "kept"} {
		done, held := admit(t.Context(), name)
		if held != nil {
			t.Fatal(held)
		}
		done(false)
	}
	for range 3 { // The outcome of the first two is not known.
		if _, held := admit(t.Context(), "a"); held != nil {
			t.Fatal(held)
		}
	}
	limiter.Created(t.Context(), invoices)
	pass(t.Context(), "a", "b", "c")

	held := remove(t.Context(), "d")
	if held == nil || held.Reason != deletes.LimitExceeded || !errors.Is(held, deletes.ErrHeld) {
		t.Fatalf("the delete beyond the limit: %v", held)
	}
	if all := guard.Holds(); len(all) != 1 || all[0].ID != held.ID || all[0].Kind() != invoices || all[0].Cluster != "edge" ||
		strings.Join(all[0].Names, " ") != "d" {
		t.Errorf("the holds are %+v", all)
	}
	purpose := deletes.OnPurpose(t.Context(), deletes.Tombstone("order a", "7"))
	pass(purpose, "e", "f", "g")
	if refused := remove(deletes.OnPurpose(t.Context(), deletes.Confirmed("")), "h"); refused == nil || refused.Reason != deletes.NoEvidence {
		t.Errorf("a delete with bad evidence: %v", refused)
	}
	if done, err := limiter.Admit(t.Context(), schema.GroupResource{Group: "entities.example.com", Resource: "notes"}, "n", "n"); err != nil {
		t.Errorf("an exempt delete: %v", err)
	} else {
		done(false)
	}
	if err := guard.Allow(t.Context(), "edge", held.ID+"=1"); err != nil {
		t.Fatal(err)
	}
	done, again := admit(t.Context(), "d")
	if again != nil {
		t.Fatalf("an allowed delete: %v", again)
	}
	done(false) // The allowance is given back, too.
	pass(t.Context(), "d")
	if again := remove(t.Context(), "i"); again == nil || again.ID != held.ID {
		t.Errorf("a delete beyond the allowance: %v", again)
	}
}

// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/claims"
	"github.com/clusterfx/clusterfx/registry/state"
)

// The remote that was registered first holds the cluster, even if it is contacted last; when it leaves, its successor does.
func TestClaims_Take(t *testing.T) {
	t.Parallel()
	now := time.Now()
	older, newer := claims.Claim{Name: "z", Since: now.Add(-time.Hour)}, claims.Claim{Name: "a", Since: now}
	c := claims.New()
	expect := func(what string, wantHolder, wantLoser state.ClusterName) func(holder, loser state.ClusterName) {
		return func(holder, loser state.ClusterName) {
			t.Helper()
			if holder != wantHolder || loser != wantLoser {
				t.Errorf("%s: got holder %q and loser %q, want %q and %q", what, holder, loser, wantHolder, wantLoser)
			}
		}
	}
	expect("a free cluster", "", "")(c.Take("one", newer))
	expect("again", "", "")(c.Take("one", newer))
	expect("an older remote", "", newer.Name)(c.Take("one", older))
	expect("a newer remote", older.Name, "")(c.Take("one", newer))
	expect("another remote of the same time", older.Name, "")(c.Take("one", claims.Claim{Name: "zz", Since: older.Since}))
	expect("another cluster", "", "")(c.Take("two", older))
	expect("the cluster that the older remote has left", "", "")(c.Take("one", newer))
	c.Drop(newer.Name)
	expect("a dropped claim", "", "")(c.Take("one", claims.Claim{Name: "b", Since: now.Add(time.Hour)}))
}

// A remote with a known cluster has the claim before its first contact, but not before an older remote.
func TestClaims_Expect(t *testing.T) {
	t.Parallel()
	now := time.Now()
	older, newer := claims.Claim{Name: "z", Since: now.Add(-time.Hour)}, claims.Claim{Name: "a", Since: now}
	c := claims.New()
	for i, one := range []struct {
		id    string
		mine  claims.Claim
		loser state.ClusterName
	}{
		{"", newer, ""}, {"one", newer, ""}, {"one", newer, ""}, {"one", older, newer.Name}, {"one", newer, ""},
	} {
		if loser := c.Expect(one.id, one.mine); loser != one.loser {
			t.Errorf("%d: got loser %q, want %q", i, loser, one.loser)
		}
	}
	if holder, _ := c.Take("one", newer); holder != older.Name {
		t.Errorf("got holder %q, want the older remote", holder)
	}
}

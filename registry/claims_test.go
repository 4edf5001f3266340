// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"
	"time"
)

// The remote that was registered first holds the cluster, even if it is contacted last; when it leaves, its successor does.
func TestClaims_Take(t *testing.T) {
	t.Parallel()
	now := time.Now()
	older, newer := claim{name: "z", since: now.Add(-time.Hour)}, claim{name: "a", since: now}
	c := claims{}
	expect := func(what string, wantHolder, wantLoser ClusterName) func(holder, loser ClusterName) {
		return func(holder, loser ClusterName) {
			t.Helper()
			if holder != wantHolder || loser != wantLoser {
				t.Errorf("%s: got holder %q and loser %q, want %q and %q", what, holder, loser, wantHolder, wantLoser)
			}
		}
	}
	expect("a free cluster", "", "")(c.take("one", newer))
	expect("again", "", "")(c.take("one", newer))
	expect("an older remote", "", newer.name)(c.take("one", older))
	expect("a newer remote", older.name, "")(c.take("one", newer))
	expect("another remote of the same time", older.name, "")(c.take("one", claim{name: "zz", since: older.since}))
	expect("another cluster", "", "")(c.take("two", older))
	expect("the cluster that the older remote has left", "", "")(c.take("one", newer))
	c.drop(newer.name)
	expect("a dropped claim", "", "")(c.take("one", claim{name: "b", since: now.Add(time.Hour)}))
}

// A remote with a known cluster has the claim before its first contact, but not before an older remote.
func TestClaims_Expect(t *testing.T) {
	t.Parallel()
	now := time.Now()
	older, newer := claim{name: "z", since: now.Add(-time.Hour)}, claim{name: "a", since: now}
	c := claims{}
	for i, one := range []struct {
		id    string
		mine  claim
		loser ClusterName
	}{
		{"", newer, ""}, {"one", newer, ""}, {"one", newer, ""}, {"one", older, newer.name}, {"one", newer, ""},
	} {
		if loser := c.expect(one.id, one.mine); loser != one.loser {
			t.Errorf("%d: got loser %q, want %q", i, loser, one.loser)
		}
	}
	if holder, _ := c.take("one", newer); holder != older.name {
		t.Errorf("got holder %q, want the older remote", holder)
	}
}

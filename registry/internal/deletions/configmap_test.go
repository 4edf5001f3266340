// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/internal/holds"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
)

// longest is an entry with a hold in which every name is as long as it may be.
func longest(t *testing.T, i int) string {
	t.Helper()
	name := func(length int) string { return fmt.Sprintf("n%04d", i) + strings.Repeat("x", length-5) }
	h := savedOf(ledger.Held{Saved: holds.Saved{
		Module: name(63), Group: name(253), Resource: name(63), Cluster: name(63),
		Fleet: true, Cause: name(128), Since: metav1.Now(), Deleted: 1_000_000, More: 1_000_000,
		Names: []string{name(60), name(317), "a<b"}, Granted: 1_000_000, Used: 1_000_000, Note: strings.Repeat("x", 100),
	}})
	testkit.Equal(t, strings.Join(h.Names, " "), name(60)+" a<b", "the names that fit")
	text, err := holds.Kept{Term: 1_000_000, Holds: map[string]holds.Saved{name(63): h}}.Text()
	must(t, err)
	return text
}

// A thousand holds fit into the ConfigMap, each in another Cluster.
func TestConfigMap_ThousandHolds(t *testing.T) {
	t.Parallel()
	h := newSharedHub(t)
	values, none := map[string]string{}, map[string]string{}
	for i := range 1000 {
		key := fmt.Sprintf("%036d", i)
		values[key], none[key] = longest(t, i), ""
	}
	if _, err := h.store.Write(t.Context(), "", values); err != nil {
		t.Fatalf("store 1000 holds: %v", err)
	}
	testkit.Equal(t, len(h.stored()), 1000, "holds")
	must(t, testkit.Err(h.store.Write(t.Context(), "", none)))
	h.expectStored("after they have ended")
}

// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/internal/holds"
)

func TestEntry(t *testing.T) {
	t.Parallel()
	want := holds.Kept{Term: 7, Holds: map[string]holds.Saved{"quota-deployments-aaaa": {
		Module: "quota", Group: "apps", Resource: "deployments", Cluster: "edge", Fleet: true, Cause: "tenant-a",
		Since:   metav1.NewTime(time.Unix(1e9, 0)),
		Deleted: 20, More: 3, Names: []string{"a/b"}, Granted: 5, Spent: 4, Used: 5,
	}}}
	text, err := want.Text()
	must(t, err)
	got, err := holds.Parse(text)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, bad := range []string{
		"", "{}", `{"holds":{}}`, `{"holds":{"a":{"module":"quota"}}}`, `{"holds":{"a":{"module":"quota","resource":"x","more":"many"}}}`,
	} {
		if e, err := holds.Parse(bad); err == nil {
			t.Errorf("%q is %+v", bad, e)
		}
	}
}

func TestParseAllowances(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]struct {
		text string
		bad  bool
	}{
		"":                {"", false},
		"a-1=5":           {"a-1=5", false},
		" b-2=7 , a-1=5 ": {"a-1=5,b-2=7", false},
		"a-1=5,b-2":       {"a-1=5", true},
		"a-1=0":           {"", true},
		"a-1=-3":          {"", true},
		"=3":              {"", true},
		"a-1=many":        {"", true},
	} {
		got, err := holds.ParseAllowances(value)
		if got.String() != want.text || (err != nil) != want.bad {
			t.Errorf("%q is %q, %v; want %q", value, got, err, want.text)
		}
	}
}

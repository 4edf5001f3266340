// SPDX-License-Identifier: Apache-2.0

package enroll

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A report that is as it was before new credentials came ends the wait once the hub must have judged these, and at once if
// it has changed.
func TestStall(t *testing.T) {
	t.Parallel()
	refused := report{ready: metav1.Condition{Reason: "AddressNotAllowed"}, stalled: true}
	other := report{ready: metav1.Condition{Reason: "IsHub"}, stalled: true}
	pending := report{ready: metav1.Condition{Reason: "Pending"}}
	for name, c := range map[string]struct {
		before report
		waited time.Duration
		then   []report
		want   bool
	}{
		"a new Cluster that waits":     {then: []report{pending}},
		"a new Cluster":                {then: []report{refused}, want: true},
		"as before":                    {before: refused, then: []report{refused}},
		"as before, after a while":     {before: refused, waited: judgement, then: []report{refused}, want: true},
		"another reason":               {before: refused, then: []report{other}, want: true},
		"judged with the same result":  {before: refused, then: []report{pending, refused}, want: true},
		"judged with another result":   {before: refused, waited: judgement, then: []report{pending}},
		"it was not stalled before it": {before: pending, then: []report{refused}, want: true},
	} {
		s := stall{before: c.before, since: time.Now().Add(-c.waited)}
		got := false
		for _, one := range c.then {
			got = s.ends(one)
		}
		if got != c.want {
			t.Errorf("%s: it ends %t", name, got)
		}
	}
}

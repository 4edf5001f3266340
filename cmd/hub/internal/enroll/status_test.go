// SPDX-License-Identifier: Apache-2.0

package enroll

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A report on the new credentials that is stalled ends the wait, and one that is unchanged since before them does not.
func TestStall(t *testing.T) {
	t.Parallel()
	refused := report{ready: metav1.Condition{Reason: "AddressNotAllowed"}, stalled: true}
	other := report{ready: metav1.Condition{Reason: "IsHub"}, stalled: true}
	pending := report{ready: metav1.Condition{Reason: "Pending"}}
	for name, c := range map[string]struct {
		before report
		then   []report
		want   bool
	}{
		"a new Cluster that waits":     {report{}, []report{pending}, false},
		"a new Cluster":                {report{}, []report{refused}, true},
		"as before":                    {refused, []report{refused, refused}, false},
		"another reason":               {refused, []report{other}, true},
		"judged with the same result":  {refused, []report{pending, refused}, true},
		"judged with another result":   {refused, []report{pending}, false},
		"it was not stalled before it": {pending, []report{refused}, true},
	} {
		s, got := stall{before: c.before}, false
		for _, one := range c.then {
			got = s.isFinal(one)
		}
		if got != c.want {
			t.Errorf("%s: the wait ends: %t", name, got)
		}
	}
}

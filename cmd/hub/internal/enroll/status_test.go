// SPDX-License-Identifier: Apache-2.0

package enroll

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A report on the new credentials that is stalled ends the wait at once. A report that is unchanged since before the
// new credentials ends the wait later, with another error.
func TestStall(t *testing.T) {
	t.Parallel()
	refused := report{ready: metav1.Condition{Reason: "AddressNotAllowed"}, stalled: true}
	other := report{ready: metav1.Condition{Reason: "IsHub"}, stalled: true}
	pending := report{ready: metav1.Condition{Reason: "Pending"}}
	for name, c := range map[string]struct {
		before report
		waited time.Duration
		then   []report
		want   error
	}{
		"a new Cluster that waits":     {then: []report{pending}},
		"a new Cluster":                {then: []report{refused}, want: errStalled},
		"as before":                    {before: refused, then: []report{refused}},
		"as before, after a while":     {before: refused, waited: judgement, then: []report{refused}, want: errUnchanged},
		"another reason":               {before: refused, then: []report{other}, want: errStalled},
		"judged with the same result":  {before: refused, then: []report{pending, refused}, want: errStalled},
		"judged with another result":   {before: refused, waited: judgement, then: []report{pending}},
		"it was not stalled before it": {before: pending, then: []report{refused}, want: errStalled},
	} {
		s := stall{before: c.before, since: time.Now().Add(-c.waited)}
		var got error
		for _, one := range c.then {
			got = s.ends(one)
		}
		if !errors.Is(got, c.want) {
			t.Errorf("%s: the wait ends with %v", name, got)
		}
	}
}

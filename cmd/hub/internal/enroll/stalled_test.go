// SPDX-License-Identifier: Apache-2.0

package enroll_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/enroll"
)

// register ends its wait with the reason and advice if waiting changes nothing. Run again, it reports only that the
// report of the hub is unchanged, because the hub may be away.
func TestRegister_EndsWhereWaitingChangesNothing(t *testing.T) {
	s := newSite(t)
	for _, reports := range []string{"waiting does not change that: ", "the hub still reports "} {
		place := s.place(t, &cut{})
		place.Timeout = 2 * time.Minute
		r := &enroll.Registration{
			Place: place, Entry: s.entry, Token: enroll.Requested, Lifetime: time.Hour,
			Account: enroll.Account{Namespace: "kube-system"},
		}
		err := run(t.Context(), r)
		if !errors.Is(err, enroll.ErrNotReady) {
			t.Fatalf("the error is %v", err)
		}
		for _, want := range []string{reports + "AddressNotAllowed: ", "--allow-cidr; then run the same command again"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("no %q in: %v", want, err)
			}
		}
	}
	must(t, run(t.Context(), s.deregister(t, &cut{})))
}

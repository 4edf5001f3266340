// SPDX-License-Identifier: Apache-2.0

package enroll_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/enroll"
)

// register ends its wait with the reason and advice if waiting changes nothing.
func TestRegister_EndsWhereWaitingChangesNothing(t *testing.T) {
	t.Parallel()
	s := newClusters(t)
	place := s.place(t, &cut{})
	place.Timeout = 2 * time.Minute
	err := run(t.Context(), &enroll.Registration{
		Place: place, Entry: s.entry, Token: enroll.Requested, Lifetime: time.Hour,
		Account: enroll.Account{Namespace: "kube-system"},
	})
	if !errors.Is(err, enroll.ErrNotReady) {
		t.Fatalf("the error is %v", err)
	}
	for _, want := range []string{"waiting does not change that: AddressNotAllowed: ", "--allow-cidr; then run the same command again"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

func TestIsHeld(t *testing.T) {
	t.Parallel()
	held := &url.Error{Op: "Delete", URL: "https://example.com", Err: &deletes.HeldError{Err: errors.New("beyond the limit")}}
	other := errors.New("conflict")
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nil":             {nil, false},
		"held":            {held, true},
		"wrapped":         {fmt.Errorf("delete x: %w", held), true},
		"two held":        {errors.Join(held, held), true},
		"held and other":  {errors.Join(held, other), false},
		"other":           {other, false},
		"two verbs":       {fmt.Errorf("%w: %w", other, held), false},
		"joined, wrapped": {fmt.Errorf("clean up: %w", errors.Join(held, held)), true},
	} {
		if got := deletes.IsHeld(c.err); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if !errors.Is(held, deletes.ErrHeld) {
		t.Error("a HeldError is no ErrHeld")
	}
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	now := metav1.NewTime(time.Now())
	gone := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", DeletionTimestamp: &now}}
	for name, c := range map[string]struct {
		evidence deletes.Evidence
		holds    bool
	}{
		"terminating parent":        {deletes.Terminating(gone), true},
		"parent":                    {deletes.Terminating(&corev1.ConfigMap{}), false},
		"no parent":                 {deletes.Terminating(nil), false},
		"nil pointer":               {deletes.Terminating((*corev1.ConfigMap)(nil)), false},
		"tombstone":                 {deletes.Tombstone("ns/x", "17"), true},
		"tombstone without version": {deletes.Tombstone("ns/x", ""), false},
		"confirmed":                 {deletes.Confirmed("ticket-1"), true},
		"confirmed without id":      {deletes.Confirmed(""), false},
	} {
		if got := c.evidence.Err == nil; got != c.holds {
			t.Errorf("%s: %v", name, c.evidence.Err)
		}
	}
}

func TestCausedBy(t *testing.T) {
	t.Parallel()
	for cause, want := range map[string]string{
		"": "", "tenant-a": "tenant-a", "a\xffb": "ab", strings.Repeat("x", 127) + "é": strings.Repeat("x", 127),
	} {
		testkit.Equal(t, deletes.CauseIn(deletes.CausedBy(deletes.CausedBy(t.Context(), "before"), cause)), want, cause)
	}
}

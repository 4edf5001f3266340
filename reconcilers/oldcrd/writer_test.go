// SPDX-License-Identifier: Apache-2.0

package oldcrd

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"another refusal": {"the object has been modified", nil},
		"one field": {
			`failed to create typed patch object (/a; example.dev/v1, Kind=A): .status.id: field not declared in schema`,
			[]string{".status.id"},
		},
		"several, in lists": {
			"failed to create typed patch object (/a; example.dev/v1, Kind=A): errors:\n" +
				"  .status.modules[name=\"a\"].controllers: field not declared in schema\n" +
				"  .status.modules[name=\"b.c]\\\"\"].controllers: field not declared in schema\n" +
				"  .status.modules[name=\"b\"].list[0].x: field not declared in schema",
			[]string{".status.modules.controllers", ".status.modules.list.x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, refused(errors.New(tc.text))); diff != "" {
				t.Error(diff)
			}
		})
	}
	if refused(nil) != nil {
		t.Error("a nil error has refused fields")
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	object := map[string]any{"status": map[string]any{
		"id": "x", "name": "y",
		"list": []any{map[string]any{"a": 1, "b": 2}, map[string]any{"b": 3}, "text"},
	}}
	prune(object, []string{".status.id", ".status.list.b", ".status.nothing.there", ".status.name.below"})
	want := map[string]any{"status": map[string]any{
		"name": "y", "list": []any{map[string]any{"a": 1}, map[string]any{}, "text"},
	}}
	if diff := cmp.Diff(want, object); diff != "" {
		t.Error(diff)
	}
}

// Refused fields are forgotten after a time, so that the writer notices a newer CRD.
func TestWriter_Forgets(t *testing.T) {
	t.Parallel()
	var w Writer
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w.note([]string{".status.b"}, now)
	w.note([]string{".status.a", ".status.b"}, now.Add(remember/2))
	if diff := cmp.Diff([]string{".status.a", ".status.b"}, w.known(now.Add(remember-1))); diff != "" {
		t.Error(diff)
	}
	if left := w.known(now.Add(remember)); left != nil {
		t.Errorf("known fields: got %q, want none", left)
	}
	w.note([]string{".status.c"}, now.Add(remember))
	if diff := cmp.Diff([]string{".status.c"}, w.known(now.Add(2*remember-1))); diff != "" {
		t.Error(diff)
	}
}

// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"

	"github.com/clusterfx/clusterfx/registry/internal/machine"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	widgets = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	gadgets = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}
)

func TestFindings(t *testing.T) {
	t.Parallel()
	q := &machine.Questions{Kinds: []schema.GroupVersionKind{widgets, gadgets}}
	before := &machine.PreflightResult{Questions: q, Served: map[schema.GroupVersionKind]bool{widgets: true}}
	silent := &machine.PreflightResult{Questions: q, Served: map[schema.GroupVersionKind]bool{}}
	if silent.LostSince(before) {
		t.Error("a question without a result counts as a loss")
	}
	silent.Keep(before)
	if !silent.Serves(widgets) || !silent.Equal(before) {
		t.Errorf("known results are lost (-before +after): %s", cmp.Diff(before.Served, silent.Served))
	}
	gone := &machine.PreflightResult{Questions: q, Served: map[schema.GroupVersionKind]bool{widgets: false}}
	if !gone.LostSince(before) || before.LostSince(gone) || gone.Complete() {
		t.Error("a kind that is gone is no loss, or a new kind is one")
	}
	lacking := &machine.PreflightResult{Questions: q, Served: before.Served, Missing: map[string][]string{"one": {"list nodes"}}}
	if !lacking.LostSince(before) || before.LostSince(lacking) {
		t.Error("a permission that is gone is no loss, or a new permission is one")
	}
	unasked := &machine.PreflightResult{Questions: q, Served: before.Served, Unknown: "timed out"}
	unasked.Keep(lacking)
	if len(unasked.MissingFor("one")) != 1 {
		t.Error("a missing permission counts as granted when the remote does not respond")
	}
}

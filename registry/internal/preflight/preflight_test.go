// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	widgets = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	gadgets = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}
)

func TestFindings(t *testing.T) {
	t.Parallel()
	q := &Questions{Kinds: []schema.GroupVersionKind{widgets, gadgets}}
	before := &Result{Questions: q, Served: map[schema.GroupVersionKind]bool{widgets: true}}
	silent := &Result{Questions: q, Served: map[schema.GroupVersionKind]bool{}}
	if silent.LostSince(before) {
		t.Error("a question that was not answered takes something away")
	}
	silent.Keep(before)
	if !silent.Serves(widgets) || !silent.Equal(before) {
		t.Errorf("what was known is forgotten: %s", cmp.Diff(before.Served, silent.Served))
	}
	gone := &Result{Questions: q, Served: map[schema.GroupVersionKind]bool{widgets: false}}
	if !gone.LostSince(before) || before.LostSince(gone) || gone.Complete() {
		t.Error("a kind that is gone is not lost, or one that came is")
	}
	lacking := &Result{Questions: q, Served: before.Served, Missing: map[string][]string{"one": {"list nodes"}}}
	if !lacking.LostSince(before) || before.LostSince(lacking) {
		t.Error("a right that is gone is not lost, or one that came is")
	}
	unasked := &Result{Questions: q, Served: before.Served, Unknown: "timed out"}
	unasked.Keep(lacking)
	if len(unasked.MissingFor("one")) != 1 {
		t.Error("a right that was missing is taken for granted when the remote does not answer")
	}
}

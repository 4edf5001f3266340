// SPDX-License-Identifier: Apache-2.0

package registry

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
	q := &questions{kinds: []schema.GroupVersionKind{widgets, gadgets}}
	before := &findings{of: q, served: map[schema.GroupVersionKind]bool{widgets: true}}
	silent := &findings{of: q, served: map[schema.GroupVersionKind]bool{}}
	if silent.lost(before) {
		t.Error("a question that was not answered takes something away")
	}
	silent.keep(before)
	if !silent.serves(widgets) || !silent.equals(before) {
		t.Errorf("what was known is forgotten: %s", cmp.Diff(before.served, silent.served))
	}
	gone := &findings{of: q, served: map[schema.GroupVersionKind]bool{widgets: false}}
	if !gone.lost(before) || before.lost(gone) || gone.complete() {
		t.Error("a kind that is gone is not lost, or one that came is")
	}
	lacking := &findings{of: q, served: before.served, lacking: map[string][]string{"one": {"list nodes"}}}
	if !lacking.lost(before) || before.lost(lacking) {
		t.Error("a right that is gone is not lost, or one that came is")
	}
	unasked := &findings{of: q, served: before.served, unasked: "timed out"}
	unasked.keep(lacking)
	if len(unasked.rightsMissingFor("one")) != 1 {
		t.Error("a right that was missing is taken for granted when the remote does not answer")
	}
}

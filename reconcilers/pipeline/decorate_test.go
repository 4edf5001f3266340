// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

// A custom wrapper wraps each operation of a CRUD resource, as the wrappers of operatorkit did.
func TestWithWrapper(t *testing.T) {
	t.Parallel()
	var j servertest.Journal
	everything := func() *pipeline.Patch[string] {
		p := &pipeline.Patch[string]{}
		p.SetCreateChange("1")
		p.SetDeleteChange("2")
		p.SetUpdateChange("3")
		return p
	}
	named := func(wrapper string) pipeline.Wrapper[*Widget] {
		return func(ctx context.Context, c pipeline.Call[*Widget], next func(context.Context) error) error {
			j.Note("%s: %s %s of %s", wrapper, c.Operation, c.Resource, c.Object.Name)
			return next(ctx)
		}
	}
	plain := []pipeline.Resource[*Widget]{
		(&machine{name: "m", journal: &j, patch: everything}).crud(t), &part{name: "p", journal: &j},
	}
	inner, err := pipeline.WithWrapper(plain, named("inner"))
	must(t, err)
	outer, err := pipeline.WithWrapper(inner, named("outer"))
	must(t, err)
	w := &Widget{ObjectMeta: metav1.ObjectMeta{Name: "w"}}

	must(t, pipeline.ProcessUpdate(t.Context(), w, outer))
	j.Expect(t,
		"outer: GetCurrentState m of w", "inner: GetCurrentState m of w", "m GetCurrentState",
		"outer: GetDesiredState m of w", "inner: GetDesiredState m of w", "m GetDesiredState",
		"outer: NewUpdatePatch m of w", "inner: NewUpdatePatch m of w", "m NewUpdatePatch",
		"outer: ApplyCreateChange m of w", "inner: ApplyCreateChange m of w", "m ApplyCreateChange 1",
		"outer: ApplyDeleteChange m of w", "inner: ApplyDeleteChange m of w", "m ApplyDeleteChange 2",
		"outer: ApplyUpdateChange m of w", "inner: ApplyUpdateChange m of w", "m ApplyUpdateChange 3",
		"outer: EnsureCreated p of w", "inner: EnsureCreated p of w", "create p")
	j.Clear()
	must(t, testkit.Err(pipeline.ProcessDelete(t.Context(), w, inner[1:])))
	j.Expect(t, "inner: EnsureDeleted p of w", "delete p")
	j.Clear()
	must(t, pipeline.ProcessUpdate(t.Context(), w, plain[1:])) // wrapping has not changed it
	j.Expect(t, "create p")

	t.Run("it may leave a call out, and change the error", func(t *testing.T) {
		refuses, err := pipeline.WithWrapper(plain, func(context.Context, pipeline.Call[*Widget], func(context.Context) error) error {
			return errBroken
		})
		must(t, err)
		j.Clear()
		testkit.ErrorIs(t, pipeline.ProcessUpdate(t.Context(), w, refuses), errBroken)
		j.Expect(t)
	})
}

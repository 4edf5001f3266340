// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"testing"

	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

// machine is a CRUD resource that records the calls of its operations, and runs functions of the test in them.
type machine struct {
	name    string
	journal *servertest.Journal
	at      map[string]func(context.Context) error
	order   pipeline.Order
	patch   func() *pipeline.Patch[string] // nil: no patch
}

func (m *machine) crud(t testing.TB) pipeline.Resource[*Widget] {
	t.Helper()
	r, err := pipeline.NewCRUDResource(m, m.order)
	must(t, err)
	return r
}

func (m *machine) step(ctx context.Context, operation string) error {
	m.journal.Note("%s %s", m.name, operation)
	if do := m.at[operation]; do != nil {
		return do(ctx)
	}
	return nil
}

func (m *machine) Name() string { return m.name }

func (m *machine) GetCurrentState(ctx context.Context, _ *Widget) (int, error) {
	return 1, m.step(ctx, "GetCurrentState")
}

func (m *machine) GetDesiredState(ctx context.Context, _ *Widget) (int, error) {
	return 2, m.step(ctx, "GetDesiredState")
}

func (m *machine) NewUpdatePatch(ctx context.Context, _ *Widget, current, desired int) (*pipeline.Patch[string], error) {
	return m.newPatch(ctx, "NewUpdatePatch", current, desired)
}

func (m *machine) NewDeletePatch(ctx context.Context, _ *Widget, current, desired int) (*pipeline.Patch[string], error) {
	return m.newPatch(ctx, "NewDeletePatch", current, desired)
}

func (m *machine) newPatch(ctx context.Context, operation string, current, desired int) (*pipeline.Patch[string], error) {
	if current != 1 || desired != 2 {
		m.journal.Note("wrong states %d and %d", current, desired)
	}
	var patch *pipeline.Patch[string]
	if m.patch != nil {
		patch = m.patch()
	}
	return patch, m.step(ctx, operation)
}

func (m *machine) ApplyCreateChange(ctx context.Context, _ *Widget, change string) error {
	return m.step(ctx, "ApplyCreateChange "+change)
}

func (m *machine) ApplyDeleteChange(ctx context.Context, _ *Widget, change string) error {
	return m.step(ctx, "ApplyDeleteChange "+change)
}

func (m *machine) ApplyUpdateChange(ctx context.Context, _ *Widget, change string) error {
	return m.step(ctx, "ApplyUpdateChange "+change)
}

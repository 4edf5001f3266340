// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

// act is an additional action of an operation.
type act string

const (
	actNothing              act = "nothing"
	actCancelResource       act = "cancel resource"
	actCancelReconciliation act = "cancel reconciliation"
	actKeepFinalizer        act = "keep finalizer"
	actFail                 act = "fail"
	actPanic                act = "panic"
)

// plan is a drawn resource: the acts of each of its operations.
type plan struct {
	name    string
	crud    bool
	order   pipeline.Order
	noPatch bool
	changes map[string]bool  // create, update, delete
	acts    map[string][]act // by operation, in order
}

func drawPlan(t *rapid.T, name string) plan {
	p := plan{
		name: name, crud: rapid.Bool().Draw(t, "crud"),
		order:   rapid.SampledFrom([]pipeline.Order{pipeline.CreateDeleteUpdate, pipeline.CreateUpdateDelete}).Draw(t, "order"),
		noPatch: rapid.IntRange(0, 5).Draw(t, "no patch") == 0,
		changes: map[string]bool{}, acts: map[string][]act{},
	}
	for _, change := range []string{"Create", "Update", "Delete"} {
		p.changes[change] = rapid.Bool().Draw(t, change)
	}
	some := rapid.SampledFrom([]act{
		actNothing, actNothing, actNothing, actNothing, actNothing, actNothing, actNothing, actNothing,
		actCancelResource, actCancelReconciliation, actKeepFinalizer, actFail, actPanic,
	})
	for _, operation := range []string{
		"EnsureCreated", "EnsureDeleted", "GetCurrentState", "GetDesiredState", "NewUpdatePatch", "NewDeletePatch",
		"ApplyCreateChange", "ApplyUpdateChange", "ApplyDeleteChange",
	} {
		p.acts[operation] = rapid.SliceOfN(some, 1, 2).Draw(t, operation)
	}
	return p
}

type drawnError struct{ resource, operation string }

func (e drawnError) Error() string { return e.resource + " " + e.operation }

func (p plan) perform(ctx context.Context, operation string) error {
	flow := pipeline.FlowFrom(ctx)
	for _, a := range p.acts[operation] {
		switch a {
		case actCancelResource:
			flow.CancelResource("drawn")
		case actCancelReconciliation:
			flow.CancelReconciliation("drawn")
		case actKeepFinalizer:
			flow.KeepFinalizer("drawn")
		case actFail:
			return drawnError{p.name, operation}
		case actPanic:
			panic(drawnError{p.name, operation})
		case actNothing:
		}
	}
	return nil
}

func (p plan) build(t *rapid.T, j *servertest.Journal) pipeline.Resource[*Widget] {
	if !p.crud {
		return &part{
			name: p.name, journal: j,
			created: func(ctx context.Context, _ *Widget) error { return p.perform(ctx, "EnsureCreated") },
			deleted: func(ctx context.Context, _ *Widget) error { return p.perform(ctx, "EnsureDeleted") },
		}
	}
	m := &machine{name: p.name, journal: j, order: p.order, at: map[string]func(context.Context) error{}}
	for operation := range p.acts {
		m.at[operation] = func(ctx context.Context) error { return p.perform(ctx, operation) }
		m.at[operation+" drawn"] = m.at[operation]
	}
	if !p.noPatch {
		m.patch = func() *pipeline.Patch[string] {
			patch := &pipeline.Patch[string]{}
			for change, set := range map[string]func(string){
				"Create": patch.SetCreateChange, "Update": patch.SetUpdateChange, "Delete": patch.SetDeleteChange,
			} {
				if p.changes[change] {
					set("drawn")
				}
			}
			return patch
		}
	}
	r, err := pipeline.NewCRUDResource(m, p.order)
	must(t, err)
	return r
}

// model predicts a pass with another method than the code: it first lists all operations that a pass could call, and
// then calls them until an act stops the pass.
type model struct {
	trace          []string
	canceled, kept bool
	err, panicked  error
}

// scheduled is one operation that a pass could call.
type scheduled struct {
	resource  int
	plan      plan
	operation string // as in acts
	entry     string // in the journal
}

func schedule(plans []plan, deleting bool) (all []scheduled) {
	for i, p := range plans {
		add := func(operation, entry string) { all = append(all, scheduled{i, p, operation, entry}) }
		verb, ensure, planning := "create", "EnsureCreated", "NewUpdatePatch"
		if deleting {
			verb, ensure, planning = "delete", "EnsureDeleted", "NewDeletePatch"
		}
		if !p.crud {
			add(ensure, verb+" "+p.name)
			continue
		}
		for _, operation := range []string{"GetCurrentState", "GetDesiredState", planning} {
			add(operation, p.name+" "+operation)
		}
		changes := []string{"Create", "Delete", "Update"}
		if p.order == pipeline.CreateUpdateDelete {
			changes = []string{"Create", "Update", "Delete"}
		}
		for _, change := range changes {
			if p.changes[change] && !p.noPatch {
				add("Apply"+change+"Change", p.name+" Apply"+change+"Change drawn")
			}
		}
	}
	return all
}

func predict(plans []plan, deleting bool) (m model) {
	skipped := -1 // index of the canceled resource
	for _, s := range schedule(plans, deleting) {
		if m.canceled || m.err != nil || m.panicked != nil {
			break
		}
		if s.resource == skipped {
			continue
		}
		m.trace = append(m.trace, s.entry)
		for _, a := range s.plan.acts[s.operation] {
			switch {
			case m.err != nil || m.panicked != nil:
			case a == actCancelResource:
				skipped = s.resource
			case a == actCancelReconciliation:
				m.canceled = true
			case a == actKeepFinalizer:
				m.kept = true
			case a == actFail:
				m.err = drawnError{s.plan.name, s.operation}
			case a == actPanic:
				m.panicked = drawnError{s.plan.name, s.operation}
			}
		}
	}
	return m
}

// TestProcess_IsItsModel compares passes with a model: any operation of any resource may cancel, fail and
// panic, in any combination.
func TestProcess_IsItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var j servertest.Journal
		var plans []plan
		var resources []pipeline.Resource[*Widget]
		for i := range rapid.IntRange(1, 4).Draw(t, "resources") {
			plans = append(plans, drawPlan(t, fmt.Sprintf("r%d", i)))
			resources = append(resources, plans[i].build(t, &j))
		}
		deleting := rapid.Bool().Draw(t, "deleting")
		keep, err, panicked := process(t, resources, deleting)
		want := predict(plans, deleting)
		testkit.Equal(t, j.All(), want.trace, "calls")
		if !errors.Is(err, want.err) || !errors.Is(panicked, want.panicked) {
			t.Errorf("got error %v and panic %v, want %v and %v", err, panicked, want.err, want.panicked)
		}
		if wantKeep := deleting && (want.err != nil || want.canceled || want.kept); want.panicked == nil && keep != wantKeep {
			t.Errorf("got keep %t, want %t", keep, wantKeep)
		}
	})
}

// process runs a pass, and also returns the value of its panic.
func process(t *rapid.T, resources []pipeline.Resource[*Widget], deleting bool) (keep bool, err, panicked error) {
	defer func() {
		if value := recover(); value != nil {
			drawn, ok := value.(drawnError)
			if !ok {
				panic(value)
			}
			panicked = drawn
		}
	}()
	ctx := t.Context()
	if deleting {
		keep, err = pipeline.ProcessDelete(ctx, &Widget{}, resources)
		return keep, err, nil
	}
	return false, pipeline.ProcessUpdate(ctx, &Widget{}, resources), nil
}

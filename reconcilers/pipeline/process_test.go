// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

func TestProcess_NoResources(t *testing.T) {
	t.Parallel()
	testkit.ErrorIs(t, pipeline.ProcessUpdate(t.Context(), &Widget{}, nil), pipeline.ErrExecutionFailed)
	keep, err := pipeline.ProcessDelete(t.Context(), &Widget{}, nil)
	if !errors.Is(err, pipeline.ErrExecutionFailed) || !keep {
		t.Errorf("got keep %t, error %v, want true and ErrExecutionFailed", keep, err)
	}
}

func TestProcess_EndOfContext(t *testing.T) {
	t.Parallel()
	var j servertest.Journal
	ctx, cancel := context.WithCancel(t.Context())
	first := &part{name: "first", journal: &j, created: func(context.Context, *Widget) error { cancel(); return nil }}
	err := pipeline.ProcessUpdate(ctx, &Widget{}, []pipeline.Resource[*Widget]{first, &part{name: "second", journal: &j}})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "second") {
		t.Errorf("got error %v, want context canceled at second", err)
	}
	j.Expect(t, "create first")
}

// A change does not start if the context has ended during the decision.
func TestCRUD_EndOfContext(t *testing.T) {
	t.Parallel()
	var j servertest.Journal
	ctx, cancel := context.WithCancel(t.Context())
	m := &machine{
		name: "m", journal: &j,
		at:    map[string]func(context.Context) error{"NewUpdatePatch": func(context.Context) error { cancel(); return nil }},
		patch: func() *pipeline.Patch[string] { p := &pipeline.Patch[string]{}; p.SetCreateChange("c"); return p },
	}
	err := pipeline.ProcessUpdate(ctx, &Widget{}, []pipeline.Resource[*Widget]{m.crud(t)})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "ApplyCreateChange: not started") {
		t.Errorf("got error %v, want context canceled at ApplyCreateChange", err)
	}
	j.Expect(t, "m GetCurrentState", "m GetDesiredState", "m NewUpdatePatch")
}

func TestProcess_LogsTheResource(t *testing.T) {
	t.Parallel()
	var lines servertest.Journal
	log := funcr.New(func(_, args string) { lines.Note("%s", args) }, funcr.Options{})
	say := &part{name: "speaker", journal: &servertest.Journal{}, created: func(ctx context.Context, _ *Widget) error {
		logr.FromContextOrDiscard(ctx).Info("Hello")
		return nil
	}}
	must(t, pipeline.ProcessUpdate(logr.NewContext(t.Context(), log), &Widget{}, []pipeline.Resource[*Widget]{say}))
	lines.Expect(t, `"level"=0 "msg"="Hello" "resource"="speaker"`)
}

func TestCRUD_Order(t *testing.T) {
	t.Parallel()
	for order, want := range map[pipeline.Order][]string{
		pipeline.CreateDeleteUpdate: {"Create", "Delete", "Update"},
		pipeline.CreateUpdateDelete: {"Create", "Update", "Delete"},
	} {
		var j servertest.Journal
		m := &machine{name: "m", journal: &j, order: order, patch: func() *pipeline.Patch[string] {
			var p pipeline.Patch[string] // the zero value is usable
			p.SetUpdateChange("u")
			p.SetDeleteChange("d")
			p.SetCreateChange("") // is set, although it is empty
			return &p
		}}
		must(t, m.crud(t).EnsureCreated(t.Context(), &Widget{}))
		expected := []string{"m GetCurrentState", "m GetDesiredState", "m NewUpdatePatch"}
		for _, w := range want {
			expected = append(expected, fmt.Sprintf("m Apply%sChange %s", w, map[string]string{"Update": "u", "Delete": "d"}[w]))
		}
		j.Expect(t, expected...)
	}
}

func TestWithRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j servertest.Journal
		left := map[string]int{"GetDesiredState": 2, "ApplyCreateChange c": 1}
		fail := func(operation string) func(context.Context) error {
			return func(context.Context) error {
				if left[operation]--; left[operation] >= 0 {
					return errBroken
				}
				return nil
			}
		}
		m := &machine{
			name: "m", journal: &j,
			patch: func() *pipeline.Patch[string] { p := &pipeline.Patch[string]{}; p.SetCreateChange("c"); return p },
			at: map[string]func(context.Context) error{
				"GetDesiredState": fail("GetDesiredState"), "ApplyCreateChange c": fail("ApplyCreateChange c"),
			},
		}
		begin := time.Now()
		rs := pipeline.WithRetry([]pipeline.Resource[*Widget]{m.crud(t)}, wait.Backoff{}) // three tries, a second apart
		must(t, pipeline.ProcessUpdate(t.Context(), &Widget{}, rs))
		j.Expect(t, "m GetCurrentState", "m GetDesiredState", "m GetDesiredState", "m GetDesiredState",
			"m NewUpdatePatch", "m ApplyCreateChange c", "m ApplyCreateChange c")
		testkit.Equal(t, time.Since(begin), 3*time.Second, "took")
	})
	t.Run("a terminal error is not tried again", func(t *testing.T) {
		t.Parallel()
		p := &part{name: "p", journal: &servertest.Journal{}, created: func(context.Context, *Widget) error {
			return fmt.Errorf("say so: %w", reconcile.TerminalError(errBroken))
		}}
		err := pipeline.ProcessUpdate(t.Context(), &Widget{},
			pipeline.WithRetry([]pipeline.Resource[*Widget]{p}, wait.Backoff{Steps: 5}))
		if !errors.Is(err, errBroken) || len(p.journal.All()) != 1 {
			t.Errorf("got error %v and calls %q, want one call", err, p.journal.All())
		}
	})
}

// The order of the decorators determines the measured unit: a call, or each of its tries.
func TestWithMetrics_AndRetry(t *testing.T) {
	t.Parallel()
	rs := []pipeline.Resource[*Widget]{&part{name: "p", journal: &servertest.Journal{}, created: func(context.Context, *Widget) error {
		return errBroken
	}}}
	backoff, reg := wait.Backoff{Steps: 3}, prometheus.NewPedanticRegistry()
	calls, err := pipeline.WithMetrics(pipeline.WithRetry(rs, backoff), reg, "calls")
	must(t, err)
	tries, err := pipeline.WithMetrics(rs, reg, "tries")
	must(t, err)
	for _, list := range [][]pipeline.Resource[*Widget]{calls, pipeline.WithRetry(tries, backoff)} {
		testkit.ErrorIs(t, pipeline.ProcessUpdate(t.Context(), &Widget{}, list), errBroken)
	}
	counted := gathered(t, reg, "clusterfx_pipeline_operation_errors_total")
	if counted["calls p EnsureCreated"] != 1 || counted["tries p EnsureCreated"] != 3 {
		t.Errorf("got counts %v, want 1 for the calls and 3 for the tries", counted)
	}
}

// A panic passes through to the controller, which recovers and counts it; the object and the metrics report it.
func TestPanics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	p := &part{name: "p", journal: &servertest.Journal{}, created: func(context.Context, *Widget) error { panic("drawn") }}
	rs, err := pipeline.WithMetrics([]pipeline.Resource[*Widget]{p}, reg, "s")
	must(t, err)
	set := every(rs...)
	h := newServer(t).byHand(pipeline.Options[*Widget]{}, set)
	h.Make("w")
	h.passes("w", 1)
	func() {
		defer func() {
			testkit.Equal(t, recover(), "drawn", "panic")
		}()
		_, err := h.pass("w")
		t.Errorf("pass returned error %v, want a panic", err)
	}()
	h.expect("w", metav1.ConditionFalse, pipeline.ReasonPanicked, "Reconciling")
	testkit.Equal(t, gathered(t, reg, "clusterfx_pipeline_operation_errors_total")["s p EnsureCreated"], 1, "counted errors")
	p.created = nil
	h.passes("w", 1)
	h.expect("w", metav1.ConditionTrue, pipeline.ReasonReady)
}

// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

// A deletion that waits is retried long before the next resync.
func TestKeepFinalizer_IsRunAgainSoon(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var left atomic.Int32
	left.Store(4)
	s.start(pipeline.Options[*Widget]{Resync: time.Hour}, every(&part{
		name: "p", journal: &servertest.Journal{}, deleted: func(ctx context.Context, _ *Widget) error {
			if left.Add(-1) > 0 {
				pipeline.FlowFrom(ctx).KeepFinalizer("the disk is still attached")
			}
			return nil
		},
	}))
	s.Make("w")
	s.expectSoon("w", "True", pipeline.ReasonReady)
	s.Remove("w")
	s.ExpectGone("w")
}

// The reason for a deletion that waits is in the log and in an event, also for a kind without conditions.
func TestKeepFinalizer_SaysWhy(t *testing.T) {
	t.Parallel()
	for what, o := range map[string]pipeline.Options[*Widget]{
		"with conditions": {Name: name, Conditions: conditions}, "without": {Name: name},
	} {
		s := newServer(t)
		recorded := events.NewFakeRecorder(10)
		o.Events = recorded
		r, err := pipeline.NewReconciler(s, router(t, every(&part{
			name: "p", journal: &servertest.Journal{}, deleted: func(ctx context.Context, _ *Widget) error {
				pipeline.FlowFrom(ctx).KeepFinalizer("the disk is still attached")
				return nil
			},
		})), o)
		must(t, err)
		var log servertest.Journal
		ctx := logr.NewContext(t.Context(), funcr.New(func(_, line string) { log.Note("%s", line) }, funcr.Options{}))
		pass := func() {
			t.Helper()
			must(t, testkit.Err(r.Reconcile(ctx, reconcile.Request{NamespacedName: s.Key("w")})))
		}
		s.Make("w")
		pass()
		pass()
		s.Remove("w")
		pass()
		close(recorded.Events)
		var all []string
		for e := range recorded.Events {
			all = append(all, e)
		}
		testkit.Equal(t, all, []string{"Normal Deleting the disk is still attached"}, what, "events")
		if lines := log.All(); len(lines) != 1 || !strings.Contains(lines[0], `"reason"="the disk is still attached"`) {
			t.Errorf("%s: got log %q", what, lines)
		}
	}
}

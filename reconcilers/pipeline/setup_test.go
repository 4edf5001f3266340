// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

// AddTo works with a common predicate that drops the event of the finalizer, for which the first pass waits.
func TestAddTo_Build(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.start(pipeline.Options[*Widget]{ControllerOptions: pipeline.ControllerOptions{Build: func(b *ctrl.Builder) {
		b.WithEventFilter(predicate.GenerationChangedPredicate{})
	}}}, every(&part{name: "p", journal: &servertest.Journal{}}))
	s.Make("w")
	s.expectSoon("w", metav1.ConditionTrue, pipeline.ReasonReady)
	s.Remove("w")
	s.ExpectGone("w")
}

// Two terms of one hub, or two remotes, add the same pipeline to two managers of one process.
func TestAddTo_Twice(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	set := every(&part{name: "p", journal: &servertest.Journal{}})
	for range 2 {
		must(t, pipeline.AddTo(s.Manager(), router(t, set), named(pipeline.Options[*Widget]{})))
	}
	err := pipeline.AddTo(s.Manager(), router(t, set), pipeline.Options[*Widget]{})
	testkit.ErrorIs(t, err, pipeline.ErrInvalidConfig, "options without a name")
}

func TestAddTo_MistakesAreFoundBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	some := router(t, every(&part{name: "p", journal: &servertest.Journal{}}))
	for what, err := range map[string]error{
		"no manager": pipeline.AddTo(nil, some, named(pipeline.Options[*Widget]{})),
		"no router":  pipeline.AddTo(s.Manager(), nil, named(pipeline.Options[*Widget]{})),
		"a sentence": pipeline.AddTo(s.Manager(), some, named(pipeline.Options[*Widget]{ConditionPrefix: "in prose "})),
		"a dash":     pipeline.AddTo(s.Manager(), some, named(pipeline.Options[*Widget]{ConditionPrefix: "-"})),
		"no domain":  pipeline.AddTo(s.Manager(), some, named(pipeline.Options[*Widget]{ConditionPrefix: "Up/"})),
	} {
		testkit.ErrorIs(t, err, pipeline.ErrInvalidConfig, what)
	}
	for _, prefix := range []string{"", "DNS", "example.com/", "example.com/DNS-"} {
		must(t, pipeline.AddTo(s.Manager(), some, named(pipeline.Options[*Widget]{ConditionPrefix: prefix})))
	}
}

// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// A held delete of a resource reaches the supervisor of the reconciler as such, is not tried again within the pass, and is
// shown in the condition. Resources that delete what belongs to a deleted object do so on purpose.
func TestReconciler_HeldDeletes(t *testing.T) {
	t.Parallel()
	var j servertest.Journal
	held := fmt.Errorf("delete x: %w", &deletes.HeldError{Reason: deletes.LimitExceeded, ID: "m-x-0000", Err: errors.New("deletes are held")})
	var evidence deletes.Evidence
	one := &part{name: "p", journal: &j, created: func(context.Context, *Widget) error { return held }}
	one.deleted = func(ctx context.Context, _ *Widget) error {
		evidence, _ = deletes.EvidenceOf(ctx)
		return nil
	}
	resources := pipeline.WithRetry([]pipeline.Resource[*Widget]{one}, wait.Backoff{Steps: 5, Duration: time.Millisecond})
	resources, err := pipeline.WithMetrics(resources, prometheus.NewRegistry(), "held")
	must(t, err)
	h := newServer(t).byHand(pipeline.Options[*Widget]{}, every(resources...))
	h.Make("w")
	h.passes("w", 1)
	if _, err := h.pass("w"); !deletes.IsHeld(err) {
		t.Errorf("the pass returns %v", err)
	}
	j.Expect(t, "create p")
	h.expect("w", metav1.ConditionFalse, pipeline.ReasonFailed, "Reconciling")
	h.Remove("w")
	h.passes("w", 1)
	h.ExpectGone("w")
	if evidence.Kind != deletes.KindTerminating || evidence.Err != nil {
		t.Errorf("the evidence of EnsureDeleted is %+v", evidence)
	}
}

// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/client-go/tools/events"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

func TestReconciler_Events(t *testing.T) {
	t.Parallel()
	recorded := events.NewFakeRecorder(10)
	p := &part{name: "p", journal: &servertest.Journal{}}
	h := newServer(t).byHand(pipeline.Options[*Widget]{Events: recorded}, every(p))
	h.Make("w")
	h.passes("w", 1)
	fail := func(err error) {
		p.created = func(context.Context, *Widget) error { return err }
		testkit.Fails(t, testkit.Err(h.pass("w")), "pass succeeds")
	}
	fail(errBroken) // a plain error records no event
	for range 3 {   // records one event
		fail(&pipeline.ReasonError{Reason: "QuotaExceeded", Message: "100% used up"})
	}
	fail(&pipeline.ReasonError{Reason: "TooLong", Message: strings.Repeat("long ", 500)})
	close(recorded.Events)
	var all []string
	for e := range recorded.Events {
		all = append(all, e)
	}
	if len(all) != 2 || all[0] != "Warning QuotaExceeded 100% used up" || len(all[1]) != len("Warning TooLong ")+1024 {
		t.Errorf("got events %q", all) // The API server accepts 1024 bytes.
	}
}

// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/sitetest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
	"github.com/clusterfx/clusterfx/registry/eventseries"
)

func TestReconciler_Events(t *testing.T) {
	t.Parallel()
	recorded := events.NewFakeRecorder(10)
	p := &part{name: "p", journal: &sitetest.Journal{}}
	h := newSite(t).byHand(pipeline.Options[*Widget]{Events: recorded}, every(p))
	h.newWidget("w")
	h.passes("w", 1)
	fail := func(err error) {
		p.created = func(context.Context, *Widget) error { return err }
		if _, err := h.pass("w"); err == nil {
			t.Error("pass succeeds, want an error")
		}
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

// Repeated failures with the same note are a series of one event, although every report changes the version of the
// object; a failure with another note is another event.
func TestReconciler_EventsAreSeries(t *testing.T) {
	t.Parallel()
	site := newSite(t)
	mgr := site.Manager()
	p := &part{name: "p", journal: &sitetest.Journal{}}
	h := site.byHand(pipeline.Options[*Widget]{Events: eventseries.ByNote(mgr.GetEventRecorder("series"), mgr.GetScheme())}, every(p))
	site.Run(mgr)
	h.newWidget("w")
	h.passes("w", 1)
	for n := range 6 {
		p.created = func(context.Context, *Widget) error {
			return &pipeline.ReasonError{Reason: "QuotaExceeded", Message: fmt.Sprintf("%d too many", n%2+1)}
		}
		if _, err := h.pass("w"); err == nil {
			t.Error("pass succeeds, want an error")
		}
	}
	h.Eventually(func() error {
		var all eventsv1.EventList
		if err := h.List(t.Context(), &all, client.InNamespace(h.Namespace)); err != nil {
			return err
		}
		var notes []string
		for _, e := range all.Items {
			if e.Series != nil {
				notes = append(notes, e.Note)
			}
		}
		slices.Sort(notes)
		if len(all.Items) != 2 || !slices.Equal(notes, []string{"1 too many", "2 too many"}) {
			return fmt.Errorf("got %d events, of which these are series: %q", len(all.Items), notes)
		}
		return nil
	})
}

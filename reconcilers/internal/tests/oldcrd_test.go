// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	hubac "github.com/clusterfx/clusterfx/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/oldcrd"
)

// older is an API server whose CRD lacks fields. TestReport_ToACRDThatLacksAField has a real one.
type older struct {
	client.SubResourceWriter
	refusals []string // by the number of the request; an empty one accepts it
	sent     []string
}

func (o *older) Apply(_ context.Context, desired runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	text, err := json.Marshal(desired)
	if err != nil {
		return err
	}
	o.sent = append(o.sent, string(text))
	if n := len(o.sent) - 1; n < len(o.refusals) && o.refusals[n] != "" {
		return errors.New(o.refusals[n])
	}
	return nil
}

// The fields that a CRD lacks are left out, in lists, too, and are tried again ten minutes later: the CRD may be newer then.
func TestWriter_LeavesOutWhatIsRefused(t *testing.T) {
	t.Parallel()
	const typed = "failed to create typed patch object (/a; example.dev/v1, Kind=A): "
	const another = "the object has been modified"
	synctest.Test(t, func(t *testing.T) {
		controllers := hubac.ControllerStatus().WithName("c")
		desired := hubac.Cluster("a").WithStatus(hubac.ClusterStatus().WithID("x").WithVersion("v1").WithModules(
			hubac.ModuleStatus().WithName("a").WithControllers(controllers), hubac.ModuleStatus().WithName(`b.c]"`).WithControllers(controllers)))
		to := &older{refusals: []string{
			typed + "errors:\n  .status.modules[name=\"a\"].controllers: field not declared in schema\n" +
				"  .status.modules[name=\"b.c]\\\"\"].controllers: field not declared in schema",
			typed + ".status.id: field not declared in schema",
			another,
		}}
		var w oldcrd.Writer
		apply := func(want ...string) (last string, err error) {
			t.Helper()
			dropped, err := w.Apply(t.Context(), to, desired)
			if diff := cmp.Diff(want, dropped); diff != "" {
				t.Errorf("dropped (-want +got):\n%s", diff)
			}
			return to.sent[len(to.sent)-1], err
		}
		_, err := apply(".status.modules.controllers", ".status.id")
		if err == nil || err.Error() != another || len(to.sent) != 3 {
			t.Errorf("got error %v after %d requests, want that of another refusal after 3", err, len(to.sent))
		}
		last, err := apply()
		if err != nil || len(to.sent) != 4 || strings.Contains(last, "controllers") || strings.Contains(last, `"id"`) || !strings.Contains(last, "v1") {
			t.Errorf("got error %v, %d requests, the last is %s", err, len(to.sent), last)
		}
		status, err := oldcrd.Known(&w, hubv1.ClusterStatus{ID: "x", Version: "v1"})
		if err != nil || status.ID != "" || status.Version != "v1" {
			t.Errorf("got the known status %+v and error %v", status, err)
		}
		<-time.After(10 * time.Minute)
		if last, err = apply(); err != nil || !strings.Contains(last, "controllers") || !strings.Contains(last, `"id"`) {
			t.Errorf("after ten minutes: got error %v, the request is %s", err, last)
		}
	})
}

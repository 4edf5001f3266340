// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// A reconcile whose writes the gate refuses is repeated after some seconds with jitter, for as long as the gate is closed:
// without a backoff that grows, and without an error in the log. An error beside it is an error.
func TestSupervise_RefusedWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const objects, bad = 50, "bad"
		seen := &calls{at: map[string][]time.Time{}}
		_, err := transport.RefuseWrite(&http.Request{}, errors.New("the gate is closed"))
		refused := fmt.Errorf("update x: %w", &url.Error{Op: "Put", URL: "/", Err: err})
		inner := reconcile.Func(func(_ context.Context, r ctrl.Request) (ctrl.Result, error) {
			seen.note(r.Name)
			if r.Name == bad {
				return ctrl.Result{}, errors.Join(refused, errors.New("something else"))
			}
			return ctrl.Result{RequeueAfter: time.Hour}, errors.Join(refused, fmt.Errorf("and %w", refused))
		})
		names := []string{bad}
		for i := range objects {
			names = append(names, fmt.Sprint(i))
		}
		errorLines := superviseFor(t, time.Hour, inner, names...)
		expectRetries(t, seen, objects, refusedRetry, refusedRetry*3/2)
		if want := len(seen.at[bad]); errorLines != want || want > 30 {
			t.Errorf("%d errors are logged, want %d, one for each call for the bad request", errorLines, want)
		}
	})
}

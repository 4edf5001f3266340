// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// calls has the times of the calls for each request.
type calls struct {
	mu sync.Mutex // protects times
	at map[string][]time.Time
}

func (c *calls) note(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at[name] = append(c.at[name], time.Now())
}

// A reconcile whose deletes are held, or whose writes the gate refuses, is repeated with jitter for as long as that lasts: without a
// backoff that grows, and without an error in the log. An error beside it is an error.
func TestSupervise_HeldAndRefused(t *testing.T) {
	t.Parallel()
	_, refused := transport.RefuseWrite(&http.Request{}, errors.New("the gate is closed"))
	held := &deletes.HeldError{Reason: deletes.LimitExceeded, ID: "m-configmaps-0000", Err: errors.New("deletes are held")}
	for name, c := range map[string]struct {
		err      error
		from, to time.Duration
	}{
		"held":    {held, heldRetry, heldRetry * 5 / 4},
		"refused": {refused, refusedRetry, refusedRetry * 3 / 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const objects, bad = 50, "bad"
				seen := &calls{at: map[string][]time.Time{}}
				waits := fmt.Errorf("resource x: %w", &url.Error{Op: "Delete", URL: "/", Err: c.err})
				inner := reconcile.Func(func(_ context.Context, r ctrl.Request) (ctrl.Result, error) {
					seen.note(r.Name)
					if r.Name == bad {
						return ctrl.Result{}, errors.Join(waits, errors.New("something else"))
					}
					return ctrl.Result{RequeueAfter: time.Hour}, errors.Join(waits, fmt.Errorf("and %w", waits))
				})
				names := []string{bad}
				for i := range objects {
					names = append(names, fmt.Sprint(i))
				}
				errorLines := superviseFor(t, time.Hour, inner, names...)
				expectRetries(t, seen, objects, c.from, c.to)
				if want := len(seen.at[bad]); errorLines != want || want > 30 {
					t.Errorf("%d errors are logged, want %d, one for each call for the bad request", errorLines, want)
				}
			})
		})
	}
}

// superviseFor runs a controller whose reconciler is supervised for a time, with a request for each name at the beginning. It
// returns how many errors are in the log.
func superviseFor(t *testing.T, atMost time.Duration, inner reconcile.Reconciler, names ...string) (errorLines int) {
	t.Helper()
	var logging sync.Mutex // protects errorLines
	log := funcr.New(func(_, line string) {
		logging.Lock()
		defer logging.Unlock()
		if !strings.Contains(line, `"level"=`) { // Errors have no level.
			errorLines++
		}
	}, funcr.Options{})
	app := &App{Metrics: telemetry.NewMetrics(prometheus.NewRegistry(), false), Context: t.Context(), ReconcileTimeout: time.Minute}
	c, err := controller.NewUnmanaged("supervised", controller.Options{
		Reconciler: &supervised[ctrl.Request]{inner: inner, guard: NewContainer(app, "m", log)}, Logger: log, MaxConcurrentReconciles: 4,
		SkipNameValidation: new(true),
	})
	must(t, err)
	must(t, c.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		for _, name := range names {
			queue.Add(requestFor(name))
		}
		return nil
	})))
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	must(t, c.Start(ctx))
	synctest.Wait()
	return errorLines
}

func requestFor(name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Name: name}}
}

// expectRetries fails the test unless the requests were repeated for an hour, each time after a time between two limits, and
// not all at once.
func expectRetries(t *testing.T, seen *calls, objects int, from, to time.Duration) {
	t.Helper()
	gaps := map[time.Duration]bool{}
	for i := range objects {
		at := seen.at[fmt.Sprint(i)]
		if len(at) < int(time.Hour/to) {
			t.Errorf("request %d was repeated %d times within an hour", i, len(at))
		}
		for j := 1; j < len(at); j++ {
			gap := at[j].Sub(at[j-1])
			gaps[gap] = true
			if gap < from || gap > to+time.Second {
				t.Errorf("request %d was repeated after %s", i, gap)
			}
		}
	}
	if len(gaps) < objects {
		t.Errorf("there are %d different pauses, want jitter", len(gaps))
	}
}

var must = testkit.Must

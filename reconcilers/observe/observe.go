// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry"
)

// ErrObserved is the error of a request that is not sent because the remote is observed and the request cannot be made a
// dry run.
var ErrObserved = errors.New("the Cluster is observed (annotation " + hubv1.AnnotationObserve + "), and this request cannot be a dry run; remove the annotation to allow it")

// Middleware returns the middleware of the remotes whose Cluster has AnnotationObserve: every write of an app,
// of WithClient and of WithCluster becomes a dry run, which the remote admits and validates like the
// write, and an Event of the Cluster reports the write. Requests that cannot be a dry run (exec, attach,
// port-forward, requests through a proxy or with another protocol) are refused with ErrObserved. The API
// server is what makes a write a dry run: an extension API server that ignores the parameter dryRun
// executes the write, and a token of a ServiceAccount is issued in any case. A request that waits for the
// rate limit when the annotation is set is sent unchanged.
//
// A module gets the responses of a remote that accepts its writes, but does not see the result when it
// reads again; it will mostly repeat the write. Each object has an event of its own with its kind,
// namespace and name; of an object that is created with generateName only that prefix is known. There are
// at most a hundred events for each app, and one more for all other objects. Repeated writes are counted
// and logged ten times immediately and once per second after that; the debug log has all of them.
func Middleware(mgr ctrl.Manager) registry.Middleware {
	o := &observer{
		clusters: mgr.GetClient(),
		events:   hubcontroller.NewRecorder(mgr),
		log:      mgr.GetLogger().WithName("observe"),
	}
	return registry.Middleware{
		Name:   "observe",
		Order:  math.MaxInt, // No other middleware may change the dry run.
		Select: func(info registry.Status) bool { return IsObserved(info.Annotations) },
		Transport: func(name registry.ClusterName, next http.RoundTripper) http.RoundTripper {
			return &observing{
				observer: o, cluster: string(name), next: next,
				pace: rate.NewLimiter(toldPerSecond, toldAtOnce), told: map[string]bool{},
			}
		},
	}
}

// eventObserved is the reason of the events.
const eventObserved = "Observed"

// How many events one app may cause.
const (
	toldPerSecond = 1
	toldAtOnce    = 10
	toldObjects   = 100
)

// IsObserved reports whether a remote is only to be looked at. An unknown value counts as on, which is the
// safe side.
func IsObserved(annotations map[string]string) bool {
	value, set := annotations[hubv1.AnnotationObserve]
	return set && value != hubv1.AnnotationObserveOff
}

// observer reports writes.
type observer struct {
	clusters client.Reader // cached
	events   hubcontroller.Recorder
	log      logr.Logger
}

// observing is the transport of one app's requests while its remote is observed.
type observing struct {
	*observer
	cluster string
	next    http.RoundTripper
	pace    *rate.Limiter // of repeated writes

	mu   sync.Mutex // protects told; held for map operations only
	told map[string]bool
}

// RoundTrip sends reads as they are and writes as dry runs.
func (o *observing) RoundTrip(r *http.Request) (*http.Response, error) {
	where := targetOf(r.URL.Path)
	switch {
	case !isPlain(r.URL), r.Header.Get("Upgrade") != "", where.connects(r.Method):
		return unsent(r, fmt.Errorf("%s %s: %w", r.Method, where, ErrObserved))
	case r.Method == http.MethodGet, r.Method == http.MethodHead, r.Method == http.MethodOptions:
		return o.next.RoundTrip(r)
	}
	dry, err := dryRun(r)
	if err != nil {
		return unsent(r, fmt.Errorf("%s %s: %w: %w", r.Method, where, ErrObserved, err))
	}
	response, err := o.next.RoundTrip(dry)
	if err == nil && response.StatusCode < http.StatusMultipleChoices && !where.isReview() {
		o.tell(r.Context(), r.Method, where.named(r))
	}
	return response, err
}

func unsent(r *http.Request, err error) (*http.Response, error) {
	if r.Body != nil {
		r.Body.Close()
	}
	return nil, err
}

// tell reports a write that was sent as a dry run.
func (o *observing) tell(ctx context.Context, method string, where target) {
	log := o.log.WithValues("cluster", o.cluster, "method", method, "target", where.String())
	note, isNew := o.noteOn(method, where)
	if !isNew && !o.pace.Allow() {
		log.V(1).Info("Write sent as a dry run")
		return
	}
	log.Info("Write sent as a dry run")
	var cluster hubv1.Cluster
	if err := o.clusters.Get(ctx, client.ObjectKey{Name: o.cluster}, &cluster); err != nil {
		return // The Cluster is gone, and its events are of no use.
	}
	var related runtime.Object
	if note != noteTooMany {
		related = where.reference()
	}
	about := object.InAnyVersion(o.events.Scheme, &cluster, "")
	o.events.Eventf(about, related, corev1.EventTypeNormal, eventObserved, method, "%s", note)
}

// noteTooMany is the note about all objects after the first toldObjects.
const noteTooMany = "Would write more than 100 objects, which the remote accepts; the log with --log-level=debug names them"

// noteOn returns the note of the event for a write, and whether it is the first event of the app with that note.
func (o *observing) noteOn(method string, where target) (note string, isNew bool) {
	note = object.Shortened("Would "+method+" "+where.String()+", which the remote accepts", object.MaxNote)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.told[note] && len(o.told) >= toldObjects {
		note = noteTooMany
	}
	isNew = !o.told[note]
	o.told[note] = true
	return note, isNew
}

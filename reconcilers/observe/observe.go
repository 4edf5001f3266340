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
	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry"
)

// ErrObserved refuses a request that cannot be a dry run while the remote is observed.
var ErrObserved = errors.New("the Cluster is observed (annotation " + hubv1.AnnotationObserve + "), and this request cannot be a dry run; remove the annotation to allow it")

// Middleware is for remotes whose Cluster has AnnotationObserve. Every write of an app, of WithClient and of
// WithCluster becomes a dry run, and an Event of the Cluster reports it. What cannot be one (exec, attach,
// port-forward, proxies, other protocols) is refused with ErrObserved. The API server makes the dry run: an extension
// server that ignores the parameter writes, and tokens of ServiceAccounts are issued. A request that waits for the
// rate limit when the annotation is set is sent unchanged.
//
// A module does not see its writes when it reads, and will mostly repeat them. Each object has an event; of a
// generateName only the prefix is known. There are at most a hundred events for each app, and one for all others.
// Repetitions are counted and logged ten times at once, then once per second; the debug log has all.
func Middleware(mgr ctrl.Manager) registry.Middleware {
	o := &observer{
		clusters: mgr.GetClient(),
		events:   hubcontroller.NewRecorder(mgr),
		log:      mgr.GetLogger().WithName("observe"),
	}
	return registry.Middleware{
		Name:   "observe",
		Order:  math.MaxInt,
		Select: func(info registry.Status) bool { return IsObserved(info.Annotations) },
		Transport: func(name registry.ClusterName, next http.RoundTripper) http.RoundTripper {
			return &observing{
				observer: o, cluster: string(name), next: next,
				pace: rate.NewLimiter(toldPerSecond, toldAtOnce), told: map[string]bool{},
			}
		},
	}
}

const eventObserved = "Observed"

const (
	toldPerSecond = 1
	toldAtOnce    = 10
	toldObjects   = 100
)

// IsObserved counts an unknown value as on, the safe side.
func IsObserved(annotations map[string]string) bool {
	value, set := annotations[hubv1.AnnotationObserve]
	return set && value != hubv1.AnnotationObserveOff
}

type observer struct {
	clusters client.Reader // cached
	events   hubcontroller.Recorder
	log      logr.Logger
}

type observing struct {
	*observer
	cluster string
	next    http.RoundTripper
	pace    *rate.Limiter // of repeated writes

	mu   sync.Mutex // for map operations
	told map[string]bool
}

func (o *observing) RoundTrip(r *http.Request) (*http.Response, error) {
	dry, err := AsDryRun(r)
	if err != nil {
		return unsent(r, err)
	}
	response, err := o.next.RoundTrip(dry)
	if where := requestinfo.Of(r.URL.Path); dry != r && err == nil && response.StatusCode < http.StatusMultipleChoices && !where.IsReview() {
		o.tell(r.Context(), r.Method, named(where, r))
	}
	return response, err
}

// AsDryRun returns the request itself if it is a read, a dry run of it if it is a write, and an error that wraps ErrObserved if it
// cannot be one; then the caller must close its body.
func AsDryRun(r *http.Request) (*http.Request, error) {
	where := requestinfo.Of(r.URL.Path)
	switch {
	case !isPlain(r.URL), r.Header.Get("Upgrade") != "", connects(r.Method, where):
		return nil, fmt.Errorf("%s %s: %w", r.Method, where.Target(), ErrObserved)
	case r.Method == http.MethodGet, r.Method == http.MethodHead, r.Method == http.MethodOptions:
		return r, nil
	}
	dry, err := dryRun(r)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %w", r.Method, where.Target(), ErrObserved, err)
	}
	return dry, nil
}

func unsent(r *http.Request, err error) (*http.Response, error) {
	if r.Body != nil {
		r.Body.Close()
	}
	return nil, err
}

func (o *observing) tell(ctx context.Context, method string, where requestinfo.Info) {
	log := o.log.WithValues("cluster", o.cluster, "method", method, "target", where.Target())
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
		related = reference(where)
	}
	about := object.InAnyVersion(o.events.Scheme, &cluster, "")
	o.events.Eventf(about, related, corev1.EventTypeNormal, eventObserved, method, "%s", note)
}

const noteTooMany = "Would write more than 100 objects, which the remote accepts; the log with --log-level=debug names them"

func (o *observing) noteOn(method string, where requestinfo.Info) (note string, isNew bool) {
	note = object.Shortened("Would "+method+" "+where.Target()+", which the remote accepts", object.MaxNote)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.told[note] && len(o.told) >= toldObjects {
		note = noteTooMany
	}
	isNew = !o.told[note]
	o.told[note] = true
	return note, isNew
}

// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/deletions"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// Rehearsal makes a registry that changes nothing in remotes: clients refuse what is no read, review of access or dry run. The caller
// must do so in Options.Hub (DryOnly). Options.Gate holds for other writes, as to NATS.
type Rehearsal struct {
	// Hub wraps the requests to the hub of a remote's app, or of hub parts with the empty name, as Middleware.Transport does those
	// to a remote. Required.
	Hub func(of ClusterName, next http.RoundTripper) http.RoundTripper
}

// Rounds are the requests of the controllers of an app: those in Left were not reconciled yet, or not again since Repeat; Working is how
// many are being reconciled. One that begins only later is not counted.
type Rounds struct{ Left, Working int }

// Rounds returns those of a remote's app, or of all hub parts with the empty name. Only a registry with Options.Rehearsal counts.
func (r *Registry) Rounds(name ClusterName) Rounds {
	return Rounds(r.remotes.Apps.Queues.Rounds(string(name)))
}

// Repeat has these controllers reconcile once more what they have reconciled, and twice what comes later: after a dry run no watch
// says that something has changed.
func (r *Registry) Repeat(name ClusterName) { r.remotes.Apps.Queues.Repeat(string(name)) }

// Measure has the metrics say how much memory the objects in the cache of a remote's app take up now, or in those of hub parts with the
// empty name. Otherwise they say it of a sample, and at times.
func (r *Registry) Measure(name ClusterName) { r.remotes.Apps.Metrics.Measure(string(name)) }

// ModuleOf returns the name of the module on whose behalf a write is sent, for Middleware; empty for the hub itself.
func ModuleOf(ctx context.Context) string { return contain.ModuleOf(ctx) }

// DeleteLimits returns how many objects of a kind a module may delete without evidence, in one cluster and in all, within ten minutes.
func (r *Registry) DeleteLimits(module string, what schema.GroupResource, labels map[string]string) (perTarget, perFleet int) {
	var of deletes.Limits
	if known := r.remotes.Modules.Find(module); known != nil {
		of = known.DeleteLimits(labels)
	}
	limits := deletions.LimitsFor(what, of)
	return limits.PerTarget, limits.PerFleet
}

// Goroutines returns the functions in which goroutines with these pprof labels are. Those of apps have the label cluster.
func Goroutines(labels ...string) []string { return contain.Goroutines(labels...) }

// ErrDryOnly refuses a request that could change something in a rehearsal.
var ErrDryOnly = transport.ErrDryOnly

// DryOnly returns a transport that refuses, with ErrDryOnly, what is no read, dry run or review of access. That the body of a delete
// agrees with its query is its sender's duty.
func DryOnly(next http.RoundTripper) http.RoundTripper { return transport.DryOnly(next) }

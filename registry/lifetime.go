// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"runtime/pprof"
	"strconv"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lifetime is what the life of every App has whose modules are contained: that of a remote's app, which is
// an epoch, and that of a hub part.
//
// Its context is its fence: a client that the modules have looks at it right before it sends a request.
type lifetime struct {
	*environment
	name   ClusterName // the remote's; empty for a hub part
	number int64
	log    logr.Logger
	labels []string // of its goroutines in profiles, as keys and values

	ctx        context.Context //nolint:containedctx // See above.
	cancel     context.CancelCauseFunc
	permission *permission
	clients    *rest.Config // what modules make their own clients with
	// clientReading makes a client of a module that reads from another cache. A hub part has none.
	clientReading func(client.Reader) (client.Client, error)

	graph   graphLog
	tracker *tracker
	hooks   hooks
}

// begin completes a life of which name, number and log are set. labels are those of its goroutines in profiles,
// besides its number. changed is called when the App has come further or a module has failed.
func (l *lifetime) begin(env *environment, labels []string, modules []choice, changed func()) {
	l.environment = env
	l.labels = append(labels, "epoch", strconv.FormatInt(l.number, 10))
	l.ctx, l.cancel = context.WithCancelCause(pprof.WithLabels(env.root, pprof.Labels(l.labels...)))
	l.permission = newPermission(l.ctx)
	l.log = quietAtEnd(l.permission.ctx, l.log, false)
	l.graph.log = l.log.WithName("fx")
	l.hooks.log, l.hooks.timeout = l.log, env.limits.StopTimeout
	l.tracker = newTracker(modules, changed)
}

// stop fences the life: from now on no request leaves it, its contexts have ended, and whoever runs it cleans
// up. It returns at once and may be called any number of times.
func (l *lifetime) stop(cause error) { l.cancel(cause) }

// goroutines names the functions in which goroutines of this life still are, with how many are in
// each. It is asked only of an App that does not end, because it looks at every goroutine of the hub.
func (l *lifetime) goroutines() []string {
	var found []string
	for stack := range stacks("epoch", strconv.FormatInt(l.number, 10)) {
		if isConnection(stack) {
			continue
		}
		if len(found) == maxNamed {
			return append(found, "and others")
		}
		found = append(found, summarize(stack))
	}
	return found
}

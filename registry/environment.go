// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// environment is what all epochs of a registry share.
type environment struct {
	root         context.Context //nolint:containedctx // What everything of the registry lives in; it ends after Shutdown.
	end          context.CancelFunc
	hub          *rest.Config
	hubTransport http.RoundTripper
	hubMapper    meta.RESTMapper
	hubCache     client.Reader
	replica      string
	scheme       *runtime.Scheme
	modules      []Module
	metrics      prometheus.Registerer
	gate         func() error
	limits       Limits
	mappings     mappings
	policy       kubeconfig.Policy
	turns        chan struct{}
	epochs       atomic.Int64 // started so far, of all remotes
}

func newEnvironment(o Options, transport http.RoundTripper) *environment {
	env := &environment{
		hub: o.Hub, hubTransport: transport, hubMapper: o.HubMapper, hubCache: o.HubCache,
		replica: o.Replica, scheme: o.Scheme, modules: slices.Clone(o.Modules), policy: o.Policy,
		metrics: o.Metrics, gate: o.Gate, limits: o.Limits.withDefaults(),
	}
	env.root, env.end = context.WithCancel(context.Background())
	if env.metrics == nil {
		env.metrics = prometheus.NewRegistry()
	}
	if env.replica == "" {
		env.replica = "hub"
	}
	if env.hubCache == nil {
		env.hubCache = noCache{}
	}
	env.turns = make(chan struct{}, env.limits.Starts)
	return env
}

// turnLimit is how long a start may keep its turn: turns smooth the start of many apps, and a
// remote whose lists take long must not hold up the others.
const turnLimit = 5 * time.Second

// takeTurn waits for a turn to start an app. The caller calls release when it is done; the turn
// ends by itself after turnLimit.
func (env *environment) takeTurn(ctx context.Context) (release func(), err error) {
	select {
	case env.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	giveBack := sync.OnceFunc(func() { <-env.turns })
	timer := time.AfterFunc(turnLimit, giveBack)
	return func() {
		timer.Stop()
		giveBack()
	}, nil
}

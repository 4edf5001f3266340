// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"sync"

	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/registry"
)

// listener is a module with a hub part only: a controller on the hub that receives events about remotes.
type listener struct {
	mu    sync.Mutex // protects the field
	heard map[registry.ClusterName]map[registry.EventKind]int
}

func newListener() *listener {
	return &listener{heard: map[registry.ClusterName]map[registry.EventKind]int{}}
}

// news is a request. It contains the event, because there is no object to read.
type news struct {
	name registry.ClusterName
	kind registry.EventKind
}

func (l *listener) module() registry.Module {
	return registry.NewModule("listener", registry.ModuleOptions{Hub: fx.Invoke(l.setUp)})
}

func (l *listener) setUp(mgr ctrl.Manager, r *registry.Registry) error {
	toNews := func(e registry.Event) []news { return []news{{e.Name, e.Kind}} }
	return builder.TypedControllerManagedBy[news](mgr).Named("listener").
		WatchesRawSource(registry.Source(r, toNews)).
		Complete(reconcile.TypedFunc[news](func(_ context.Context, n news) (reconcile.Result, error) {
			l.note(n)
			return reconcile.Result{}, nil
		}))
}

func (l *listener) note(n news) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heard[n.name] == nil {
		l.heard[n.name] = map[registry.EventKind]int{}
	}
	l.heard[n.name][n.kind]++
}

// has reports whether the controller received an event of a kind about a remote.
func (l *listener) has(name registry.ClusterName, kind registry.EventKind) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard[name][kind] > 0
}

// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry"
)

// Names of modules.
const (
	markerName   = "marker"
	scriptedName = "scripted"
)

// Marks on ConfigMaps: the remote that an object is for, and the remote that has seen it.
const (
	forRemote = "regression/for"
	seenBy    = "regression/seen-by"
)

// marker is a module with one controller, which works the same in every remote: it marks the ConfigMaps for this remote
// with the remote's name.
func marker() registry.Module {
	return registry.NewModule(markerName, registry.ModuleOptions{Remote: fx.Invoke(setUpMarker)})
}

func setUpMarker(p registry.Remote) error {
	marks := prometheus.NewCounter(prometheus.CounterOpts{Name: "regression_marks_total", Help: "ConfigMaps that were marked."})
	if err := p.Metrics.Register(marks); err != nil {
		return err
	}
	// The name of the controller is the same in all remotes, as in any module.
	return registry.ControllerManagedBy(p.Manager).Named(markerName).For(&corev1.ConfigMap{}).
		Complete(&markerReconciler{name: string(p.Name), remote: p.Client, marks: marks})
}

type markerReconciler struct {
	name   string
	remote client.Client
	marks  prometheus.Counter
}

func (m *markerReconciler) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	var found corev1.ConfigMap
	if err := m.remote.Get(ctx, r.NamespacedName, &found); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if found.Labels[forRemote] != m.name || found.Annotations[seenBy] == m.name {
		return ctrl.Result{}, nil
	}
	before := found.DeepCopy()
	metav1.SetMetaDataAnnotation(&found.ObjectMeta, seenBy, m.name)
	if err := m.remote.Patch(ctx, &found, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	m.marks.Inc()
	return ctrl.Result{}, nil
}

// awaitMark waits until the marker of a remote has marked a new ConfigMap, and returns the time that this took.
func awaitMark(ctx context.Context, direct client.Client, remote registry.ClusterName) (time.Duration, error) {
	began := time.Now()
	made, err := newConfigMap(ctx, direct, remote)
	if err != nil {
		return 0, err
	}
	defer func() { _ = direct.Delete(context.WithoutCancel(ctx), made) }()
	deadline := time.After(patience)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		if err := direct.Get(ctx, client.ObjectKeyFromObject(made), made); err != nil {
			return 0, err
		}
		if made.Annotations[seenBy] == string(remote) {
			return time.Since(began), nil
		}
		select {
		case <-poll.C:
		case <-deadline:
			return 0, fmt.Errorf("the reconciler of %s did not see %s within %s", remote, made.Name, patience)
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// script is the behavior of the module scripted in the app of one remote. Nil does nothing.
type script struct {
	start, stop func(context.Context) error
	run         func(context.Context) error
}

// scripts are the scripts of a test or a hub, by remote.
type scripts struct {
	mu    sync.Mutex // protects byKey
	byKey map[registry.ClusterName]script
}

// set gives a remote a script until the test ends.
func (s *scripts) set(t *testing.T, name registry.ClusterName, what script) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey == nil {
		s.byKey = map[registry.ClusterName]script{}
	}
	s.byKey[name] = what
	t.Cleanup(func() { s.remove(name) })
}

func (s *scripts) remove(name registry.ClusterName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byKey, name)
}

func (s *scripts) of(name registry.ClusterName) script {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byKey[name]
}

func (s *scripts) module() registry.Module {
	return registry.NewModule(scriptedName, registry.ModuleOptions{
		Remote: fx.Invoke(func(p registry.Remote, lifecycle fx.Lifecycle) error {
			what := s.of(p.Name)
			if what.start != nil || what.stop != nil {
				lifecycle.Append(fx.Hook{OnStart: what.start, OnStop: what.stop})
			}
			if what.run == nil {
				return nil
			}
			return p.Manager.Add(manager.RunnableFunc(what.run))
		}),
	})
}

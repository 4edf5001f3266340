// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry"
)

// mirror is a module that does nothing special: it copies the ConfigMaps of a namespace of the hub to the namespace of each
// remote, and deletes the copies that have no source.
type mirror struct {
	// cleaned counts the cleanup steps that have begun.
	cleaned atomic.Int64
}

const (
	mirrorName = "mirror"
	// sources is the namespace of the sources in the hub.
	sources = "sources"
	// mirrorLabel marks the copies.
	mirrorLabel = "example.com/mirror"
	mirrorEvery = 300 * time.Millisecond
)

func (m *mirror) module() registry.Module {
	return registry.NewModule(mirrorName, registry.ModuleOptions{Remote: fx.Options(
		fx.Invoke(func(p registry.Remote) error {
			return p.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
				tick := time.NewTicker(mirrorEvery)
				defer tick.Stop()
				for {
					syncCopies(ctx, p)
					select {
					case <-ctx.Done():
						return nil
					case <-tick.C:
					}
				}
			}))
		}),
		fx.Provide(registry.AsCleanup(func(p registry.Remote) registry.CleanupStep {
			return registry.CleanupStep{Name: "mirror/copies", Run: func(ctx context.Context) error {
				m.cleaned.Add(1)
				return p.Client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(string(p.Name)), client.HasLabels{mirrorLabel})
			}}
		})),
	)})
}

// syncCopies creates what is missing and deletes what is too much. The next call repeats what fails.
func syncCopies(ctx context.Context, p registry.Remote) {
	var there, here corev1.ConfigMapList
	if p.HubClient.List(ctx, &there, client.InNamespace(sources), client.HasLabels{mirrorLabel}) != nil ||
		p.Client.List(ctx, &here, client.InNamespace(string(p.Name)), client.HasLabels{mirrorLabel}) != nil {
		return
	}
	missing := map[string]bool{}
	for _, one := range there.Items {
		missing[one.Name] = true
	}
	for i := range here.Items {
		one := &here.Items[i]
		if !missing[one.Name] {
			_ = p.Client.Delete(ctx, one)
		}
		delete(missing, one.Name)
	}
	for name := range missing {
		_ = p.Client.Create(ctx, mirrored(string(p.Name), name))
	}
}

func mirrored(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{mirrorLabel: "true"},
	}}
}

// SPDX-License-Identifier: Apache-2.0

// Package features is the shortest useful controller of entities: a program's feature flags, under its name in the
// NATS bucket features, become a ConfigMap in each remote.
package features

import (
	"context"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
	"github.com/clusterfx/clusterfx/registry"
)

// Features are the feature flags of a program, and the namespace that it runs in: {"namespace": "shop", "flags": {"dark": "on"}}.
type Features struct {
	Namespace string            `json:"namespace"`
	Flags     map[string]string `json:"flags"`
}

// Module is the module. It needs natshub.Module.
var Module = registry.NewModule("features", registry.ModuleOptions{
	Description: "Takes the feature flags of a NATS bucket to all remotes.",
	Remote: fx.Invoke(func(remote registry.Remote, nats *natshub.Connection) error {
		features, err := nats.Follow("features")
		if err != nil {
			return err
		}
		_, err = entity.Add(entity.NewStore(features, entity.JSON[Features](nil)), entity.Func[Features](reconcile), entity.Options{
			Name: "features", Marks: entity.Marks{Hub: remote.HubID, Kind: "Features"},
			Manager: remote.Manager, Cluster: string(remote.Name), Owns: []client.Object{&corev1.ConfigMap{}},
		})
		return err
	}),
	Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	},
})

func reconcile(ctx context.Context, e *entity.Entity[Features], s *entity.Secondaries) (entity.Report, error) {
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Value.Namespace, Name: "features-" + e.Key}, Data: e.Value.Flags}
	if err := s.Apply(ctx, made); err != nil {
		return entity.Report{}, err
	}
	return entity.Report{Ready: true}, s.DeleteOthers(ctx, made) // as in an earlier namespace
}

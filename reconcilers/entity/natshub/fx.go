// SPDX-License-Identifier: Apache-2.0

package natshub

import (
	"cmp"
	"context"
	"fmt"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/registry"
)

// Params are what the connection takes in the hub part.
type Params struct {
	registry.HubPart

	NATS Options `optional:"true"` // NATS defaults to the zero Options
}

// Module shares the hub's connection with all apps, whose modules may ask for a *Connection. Its hub part is Degraded
// while a module lacks NATS or a bucket.
var Module = registry.NewModule("nats", registry.ModuleOptions{
	Description: "Connects the hub to NATS, for modules with entities.",
	Hub:         fx.Options(fx.Provide(connect), registry.Share[*Connection]()),
	HubRuns:     registry.WithRemotes, // apps of every replica use its connection
	HubRules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{AnchorName}, Verbs: []string{"get", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
		{APIGroups: []string{hubv1.GroupVersion.Group}, Resources: []string{"clusters"}, Verbs: []string{"list"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	},
	HubNamespaces: []string{registry.CredentialsNamespace},
})

func connect(p Params) (*Connection, error) {
	namespace := cmp.Or(p.Options.CredentialsNamespace, metav1.NamespaceDefault)
	about := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: AnchorName},
	}
	e := Environment{
		HubID: p.Options.HubID, Logger: p.Logger, Degraded: p.SetDegraded,
		AnchorOf: func(name string) bucket.Anchor {
			return Anchor{Client: p.Client, Reader: p.APIReader, Namespace: namespace, Bucket: name}
		},
		Secret: func(ctx context.Context, name string) (map[string][]byte, error) {
			var found corev1.Secret
			err := p.APIReader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &found)
			return found.Data, err
		},
		Clusters: func(ctx context.Context) (map[string]bool, error) {
			all := &metav1.PartialObjectMetadataList{}
			all.SetGroupVersionKind(hubv1.GroupVersion.WithKind("ClusterList"))
			err := p.APIReader.List(ctx, all)
			names := map[string]bool{}
			for _, one := range all.Items {
				names[one.Name] = true
			}
			return names, err
		},
		Event: func(kind, reason, action, note string) {
			p.EventRecorder.Eventf(about, nil, kind, reason, action, "%s", note)
		},
	}
	if gate := p.Options.Gate; gate != nil {
		e.Gate = func() error {
			_, err := gate("")
			return err
		}
	}
	c, err := New(p.NATS, e)
	if err != nil {
		return nil, err
	}
	if err := p.Metrics.Register(newCollector(c)); err != nil {
		return nil, fmt.Errorf("register the metrics of NATS: %w", err)
	}
	return c, p.Manager.Add(manager.RunnableFunc(c.Run))
}

// SPDX-License-Identifier: Apache-2.0

package enroll

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

const perRequest = 15 * time.Second

// Reach connects to the remote of a Cluster with its Secret, as the hub does. The caller must call the function that it returns.
func (p Place) Reach(ctx context.Context, c *hubv1.Cluster, policy kubeconfig.Policy) (*access.Cluster, func(), error) {
	if c.Spec.Via == hubv1.ViaTunnel {
		return nil, nil, fmt.Errorf("only the hub reaches the remote of Cluster %s, through its tunnel: use kubectl in a context of the remote", c.Name)
	}
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: p.Namespace, Name: c.Spec.KubeconfigSecretRef.Name}
	if err := p.Hub.Get(ctx, key, &secret); err != nil {
		return nil, nil, p.Hub.Explain(fmt.Errorf("read Secret %s: %w", key, err))
	}
	connection, err := kubeconfig.Parse(secret.Data, cluster.OptionsOf(c), policy)
	if err != nil {
		return nil, nil, fmt.Errorf("use Secret %s: %w", key, err)
	}
	transport, err := kubeconfig.NewTransport(connection, policy)
	if err != nil {
		return nil, nil, fmt.Errorf("use Secret %s: %w", key, err)
	}
	config := kubeconfig.RESTConfig(connection.Endpoint, transport)
	config.UserAgent, config.Timeout = access.UserAgent(), perRequest
	remote, err := access.NewRemote("remote "+c.Name, config, connection.Credential)
	if err != nil {
		transport.Close()
		return nil, nil, err
	}
	return remote, transport.Close, nil
}

// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

const (
	// accountPrefix differs from that of register, so that a remote can be registered again.
	accountPrefix       = "clusterfx-"
	remoteAccountPrefix = accountPrefix + "dev-"
	// accountLifetime is longer than a dev runs: these tokens are not renewed.
	accountLifetime = 365 * 24 * time.Hour
)

func (d *demo) hubAccount(ctx context.Context) (*fleet.Credential, error) {
	user := fleet.User{Name: accountPrefix + hubName, Lifetime: accountLifetime}
	credential, err := d.hub.MintToken(ctx, user)
	if err == nil {
		err = d.prepared.Grant(ctx, d.client, rbacv1.Subject{
			Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: user.Name,
		}, d.replicas > 1)
	}
	if err != nil {
		return nil, fmt.Errorf("make the account of the hub: %w", err)
	}
	return credential, nil
}

// remoteAccount returns the kubeconfig of an account with the permissions that the remote's modules declare.
func (d *demo) remoteAccount(ctx context.Context, r remote, labels map[string]string) ([]byte, error) {
	credential, err := r.MintToken(ctx, fleet.User{
		Name: remoteAccountPrefix + r.Name(), Lifetime: accountLifetime,
		Rules: rbac.RemoteRules(registry.SelectModules(d.prepared.Modules, labels, nil)...),
	})
	if err != nil {
		return nil, fmt.Errorf("make the account of the hub in %s: %w", r.Name(), err)
	}
	return credential.Kubeconfig(), nil
}

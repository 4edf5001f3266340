// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/internal/tunnel"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// register creates a labelled Secret for each remote, of which the hub makes a Cluster.
func (d *demo) register(ctx context.Context) error {
	how := "by Secret"
	if d.tunnel {
		how = "through tunnels"
		if err := d.prepareTunnels(ctx); err != nil {
			return fmt.Errorf("prepare tunnels: %w", err)
		}
	}
	d.terminal.Step("registering %s %s", output.Count(len(d.remotes), "cluster"), how)
	for _, r := range d.remotes {
		own := r.labels()
		kubeconfig, err := d.remoteAccount(ctx, r, own)
		if err != nil {
			return err
		}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name:        r.Name(),
				Namespace:   hubv1.DefaultNamespace,
				Labels:      map[string]string{hubv1.LabelCluster: hubv1.LabelClusterValue},
				Annotations: map[string]string{hubv1.AnnotationClusterLabels: labels.FormatLabels(own)},
			},
			Data: map[string][]byte{"kubeconfig": kubeconfig},
		}
		if d.tunnel {
			if err := d.registerTunnel(ctx, r, secret); err != nil {
				return fmt.Errorf("register %s: %w", r.Name(), err)
			}
		}
		if err := d.client.Create(ctx, secret); err != nil {
			return fmt.Errorf("create the Secret for %s: %w", r.Name(), err)
		}
	}
	return nil
}

func (d *demo) prepareTunnels(ctx context.Context) error {
	agents, key, err := tunnel.NewLocal(ctx)
	if err != nil {
		return err
	}
	d.agents = agents
	return d.client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: hubv1.DefaultNamespace, Name: hubv1.TunnelSecretName},
		Data:       map[string][]byte{hubv1.TunnelSecretKey: key},
	})
}

// registerTunnel creates the Cluster of a Secret, which it changes for that, and runs its agent.
func (d *demo) registerTunnel(ctx context.Context, r remote, secret *corev1.Secret) error {
	c := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: r.Name(), Labels: r.labels()}}
	c.Spec.KubeconfigSecretRef.Name, c.Spec.Via = secret.Name, hubv1.ViaTunnel
	if err := d.client.Create(ctx, c); err != nil {
		return err
	}
	server, err := url.Parse(r.Server())
	if err != nil {
		return err
	}
	key, err := d.agents.Run(c.Name, server.Host)
	if err != nil {
		return err
	}
	secret.Labels = nil // The Cluster is not made from it.
	secret.Annotations = map[string]string{hubv1.AnnotationTunnelKeys: c.Name + "/" + string(c.UID) + " " + key}
	return nil
}

const (
	// remoteAccountPrefix differs from that of register, so that a remote can be registered again.
	remoteAccountPrefix = "clusterfx-dev-"
	// accountLifetime is longer than a dev runs: these tokens are not renewed.
	accountLifetime = 365 * 24 * time.Hour
)

// hubAccount is the account of an installed hub, to which rbac binds the roles that it prints.
func (d *demo) hubAccount(ctx context.Context) (*fleet.Credential, error) {
	user := fleet.User{Namespace: hubv1.DefaultNamespace, Name: roles.HubRole, Lifetime: accountLifetime}
	credential, err := d.hub.MintToken(ctx, user)
	if err == nil {
		err = d.prepared.Grant(ctx, d.client, roles.Account(user.Namespace, user.Name))
	}
	if err == nil {
		err = d.grantRules(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("make the account of the hub: %w", err)
	}
	return credential, nil
}

// grantRules gives the hub what the rules of --apply need in its cluster, as an operator does with the output of rbac --rules.
func (d *demo) grantRules(ctx context.Context) error {
	hub := roles.Hub{Namespace: hubv1.DefaultNamespace}
	for _, r := range d.rules {
		for _, one := range hub.OfRule(r) {
			if err := d.client.Create(ctx, one); err != nil {
				return fmt.Errorf("grant rule %s what it needs: %w; its namespaces of the hub must be in the file of --apply, too", r.Name, err)
			}
		}
	}
	return nil
}

// remoteAccount returns the kubeconfig of an account with the permissions that the remote's modules declare.
func (d *demo) remoteAccount(ctx context.Context, r remote, labels map[string]string) ([]byte, error) {
	needed := rbac.RemoteRules(registry.SelectModules(d.prepared.Modules, labels, nil)...)
	for _, rule := range d.rules {
		needed = append(needed, rule.Permissions().Remote...)
	}
	credential, err := r.MintToken(ctx, fleet.User{Name: remoteAccountPrefix + r.Name(), Lifetime: accountLifetime, Rules: needed})
	if err != nil {
		return nil, fmt.Errorf("make the account of the hub in %s: %w", r.Name(), err)
	}
	return credential.Kubeconfig(), nil
}

// errSlow is the cause of a wait that took too long.
var errSlow = errors.New("the remotes did not become Ready in time")

// waitReady returns when every remote is Ready, and says so of each as soon as it is.
func (d *demo) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d.timeout, errSlow)
	defer cancel()
	begin := time.Now()
	seen := map[string]bool{}
	var last hubv1.ClusterList
	err := access.Poll(ctx, pollPeriod, func() (bool, error) {
		select {
		case <-d.running.done:
			return false, d.hubEnded()
		default:
		}
		if err := d.client.List(ctx, &last); err != nil {
			return false, fmt.Errorf("list Clusters: %w", err)
		}
		for _, c := range last.Items {
			if meta.IsStatusConditionTrue(c.Status.Conditions, hubv1.ConditionReady) && !seen[c.Name] {
				seen[c.Name] = true
				d.terminal.Done("cluster.%s/%s ready   %s modules   %s",
					hubv1.GroupName, c.Name, c.Status.ModuleSummary, since(begin))
			}
		}
		return len(seen) == len(d.remotes), nil
	})
	if errors.Is(context.Cause(ctx), errSlow) {
		return fmt.Errorf("%w: %s", errSlow, describe(&last))
	}
	return err
}

// describe says of each cluster that is not Ready why.
func describe(list *hubv1.ClusterList) string {
	text := fmt.Sprintf("the hub knows %d clusters", len(list.Items))
	for _, c := range list.Items {
		if ready := meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionReady); ready != nil && ready.Status != metav1.ConditionTrue {
			text += fmt.Sprintf("\n  %s: %s: %s", c.Name, ready.Reason, ready.Message)
		}
	}
	return text
}

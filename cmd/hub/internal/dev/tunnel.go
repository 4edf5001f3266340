// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"fmt"
	"net/url"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/tunnel"
)

// agents are those of --tunnel: each connects the hub with a remote, as in a network that the hub cannot reach.
type agents struct {
	address string // of the hub's listener
	key     tunnel.Key
	life    context.Context //nolint:containedctx // until cleanUp
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func (d *demo) prepareTunnels(ctx context.Context) (err error) {
	if !d.tunnel {
		return nil
	}
	a := &d.agents
	a.life, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if a.address, err = freeAddress(ctx); err != nil {
		return err
	}
	if a.key, err = tunnel.NewKey(); err != nil {
		return err
	}
	text, err := a.key.PEM()
	if err != nil {
		return err
	}
	return d.client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: hubv1.DefaultNamespace, Name: hubv1.TunnelSecretName},
		Data:       map[string][]byte{hubv1.TunnelSecretKey: text},
	})
}

// registerTunnel creates the Cluster of a Secret, and has the hub accept the key of its agent.
func (d *demo) registerTunnel(ctx context.Context, r remote, secret *corev1.Secret) error {
	key, err := tunnel.NewKey()
	if err != nil {
		return err
	}
	secret.Labels, secret.Annotations = nil, nil // The Cluster is not made from it.
	if err := d.client.Create(ctx, secret); err != nil {
		return fmt.Errorf("create the Secret for %s: %w", r.Name(), err)
	}
	c := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: r.Name(), Labels: r.labels()}}
	c.Spec.KubeconfigSecretRef.Name, c.Spec.Via = secret.Name, hubv1.ViaTunnel
	if err := d.client.Create(ctx, c); err != nil {
		return fmt.Errorf("create the Cluster %s: %w", r.Name(), err)
	}
	before := secret.DeepCopy()
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, hubv1.AnnotationTunnelKeys, c.Name+"/"+string(c.UID)+" "+key.Fingerprint())
	if err := d.client.Patch(ctx, secret, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("accept the agent of %s: %w", r.Name(), err)
	}
	return d.connect(r, key)
}

// connect runs the agent of a remote until cleanUp.
func (d *demo) connect(r remote, key tunnel.Key) error {
	server, err := url.Parse(r.Server())
	if err != nil {
		return err
	}
	agent := &tunnel.Agent{
		Hub: "ws://" + d.agents.address, HubKeys: []string{d.agents.key.Fingerprint()}, Key: func() (tunnel.Key, error) { return key, nil },
		To: server.Host, Version: "dev", Log: logr.Discard(),
	}
	d.agents.running.Go(func() {
		for d.agents.life.Err() == nil {
			_ = agent.Run(d.agents.life) // It ends itself after five minutes without a hub.
		}
	})
	return nil
}

func (a *agents) stop() {
	if a.cancel != nil {
		a.cancel()
		a.running.Wait()
	}
}

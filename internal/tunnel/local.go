// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// Local are agents in the process of their hub, for a test or a demonstration.
type Local struct {
	Address string // Address is for the listener of the hub, also after a restart.

	hub       client.Client
	namespace string
	key       Key
	life      context.Context //nolint:containedctx // of the agents
	cancel    context.CancelFunc
	running   sync.WaitGroup
	mu        sync.Mutex
	keys      map[string]Key
}

// NewLocal chooses an address, and gives the hub a key. The caller must call Close.
func NewLocal(ctx context.Context, hub client.Client, namespace string) (*Local, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find an address for agents: %w", err)
	}
	defer func() { _ = l.Close() }()
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	text, err := key.PEM()
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: hubv1.TunnelSecretName}, Data: map[string][]byte{hubv1.TunnelSecretKey: text},
	}
	if err := hub.Create(ctx, secret); err != nil {
		return nil, fmt.Errorf("give the hub a key for tunnels: %w", err)
	}
	a := &Local{Address: l.Addr().String(), hub: hub, namespace: namespace, key: key, keys: map[string]Key{}}
	a.life, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return a, nil
}

// Connect has the hub accept the agent of a Cluster, and runs it until Close. The agent connects to an API server, as host:port.
func (l *Local) Connect(ctx context.Context, c *hubv1.Cluster, to string) error {
	l.mu.Lock()
	key, runs := l.keys[c.Name]
	l.mu.Unlock()
	if !runs {
		var err error
		if key, err = NewKey(); err != nil {
			return err
		}
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: c.Spec.KubeconfigSecretRef.Name}}
	before := secret.DeepCopy()
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, hubv1.AnnotationTunnelKeys, Accept(c, key.Fingerprint()))
	if err := l.hub.Patch(ctx, secret, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("accept the agent of %s: %w", c.Name, err)
	}
	if runs {
		return nil
	}
	l.mu.Lock()
	l.keys[c.Name] = key
	l.mu.Unlock()
	agent := &Agent{
		Hub: "ws://" + l.Address, HubKeys: []string{l.key.Fingerprint()}, Key: func() (Key, error) { return key, nil },
		To: to, Version: "local", Log: logr.Discard(),
	}
	l.running.Go(func() {
		for l.life.Err() == nil {
			_ = agent.Run(l.life) // It ends itself after five minutes without a hub.
		}
	})
	return nil
}

// Close ends the agents.
func (l *Local) Close() {
	if l != nil {
		l.cancel()
		l.running.Wait()
	}
}

// Accept is the value of the annotation that accepts keys of a Cluster's agent.
func Accept(c *hubv1.Cluster, keys ...string) string {
	return strings.Join(append([]string{c.Name + "/" + string(c.UID)}, keys...), " ")
}

// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"context"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/tunnel"
)

// viaVariable set to Tunnel has all tests of a run reach their remotes through tunnels.
const viaVariable = "HUBTEST_VIA"

// Tunnels has the hub reach each remote through a tunnel: its Cluster has via: Tunnel, and an agent runs in the test. Default: the
// hub connects to the remotes.
func Tunnels() Option {
	return func(o *options) { o.tunnels = true }
}

func tunnelsWanted() bool { return os.Getenv(viaVariable) == string(hubv1.ViaTunnel) }

// agents are those of a test's remotes.
type agents struct {
	address string // of the hub's listener
	key     tunnel.Key
	running sync.WaitGroup
	cancel  context.CancelFunc
	ctx     context.Context //nolint:containedctx // of all agents, until the test ends
}

// prepareTunnels chooses an address that outlives a restart of the hub, and gives the hub a key.
func (h *Hub) prepareTunnels() {
	h.tb.Helper()
	if !h.site.options.tunnels {
		return
	}
	l, err := (&net.ListenConfig{}).Listen(h.tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		h.tb.Fatalf("hubtest: find an address for agents: %v", err)
	}
	a := &agents{address: l.Addr().String()}
	_ = l.Close()
	if a.key, err = tunnel.NewKey(); err != nil {
		h.tb.Fatalf("hubtest: make the key of the hub: %v", err)
	}
	text, err := a.key.PEM()
	if err != nil {
		h.tb.Fatalf("hubtest: %v", err)
	}
	a.ctx, a.cancel = context.WithCancel(h.site.context())
	h.site.agents = a
	h.Create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.site.process.credentialsNamespace(), Name: hubv1.TunnelSecretName},
		Data:       map[string][]byte{hubv1.TunnelSecretKey: text},
	})
}

// connectAgent starts an agent, whose key the Secret of the Cluster names.
func (r *Remote) connectAgent(c *hubv1.Cluster) {
	r.tb.Helper()
	a := r.site.agents
	if a == nil {
		return
	}
	key := r.state.agent
	if key == nil {
		made, err := tunnel.NewKey()
		if err != nil {
			r.tb.Fatalf("hubtest: make the key of an agent: %v", err)
		}
		key = &made
	}
	secret := &corev1.Secret{ObjectMeta: r.secretMeta()}
	before := secret.DeepCopy()
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, hubv1.AnnotationTunnelKeys, strings.Join([]string{c.Name + "/" + string(c.UID), key.Fingerprint()}, " "))
	if err := r.hub().Patch(r.tb.Context(), secret, client.MergeFrom(before)); err != nil {
		r.tb.Fatalf("hubtest: accept the agent of %s: %v", r.Name(), err)
	}
	if r.state.agent != nil {
		return // It runs already.
	}
	r.state.agent = key
	agent := &tunnel.Agent{
		Hub: "ws://" + a.address, HubKeys: []string{a.key.Fingerprint()}, Key: func() (tunnel.Key, error) { return *key, nil },
		To: r.way.proxy.Addr(), Version: "hubtest", Log: logr.Discard(),
	}
	a.running.Go(func() { _ = agent.Run(a.ctx) })
}

func (a *agents) end() {
	if a != nil {
		a.cancel()
		a.running.Wait()
	}
}

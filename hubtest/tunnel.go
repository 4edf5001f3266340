// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/tunnel"
)

// Tunnels has the hub reach each remote through a tunnel: its Cluster has via: Tunnel, and an agent runs in the test. Default: the
// hub connects to the remotes.
func Tunnels() Option {
	return func(o *options) { o.tunnels = true }
}

func (h *Hub) prepareTunnels() {
	h.tb.Helper()
	agents, key, err := tunnel.NewLocal(h.site.context())
	h.must(err, "prepare tunnels")
	h.site.agents = agents
	h.Create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.site.process.credentialsNamespace(), Name: hubv1.TunnelSecretName},
		Data:       map[string][]byte{hubv1.TunnelSecretKey: key},
	})
}

// connectAgent runs an agent, whose key the Secret of the Cluster names.
func (r *Remote) connectAgent(c *hubv1.Cluster) {
	r.tb.Helper()
	key, err := r.site.agents.Run(c.Name, r.way.proxy.Addr())
	r.must(err, "run the agent of %s", c.Name)
	secret := &corev1.Secret{ObjectMeta: r.secretMeta()}
	before := secret.DeepCopy()
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, hubv1.AnnotationTunnelKeys, c.Name+"/"+string(c.UID)+" "+key)
	r.must(r.hub().Patch(r.tb.Context(), secret, client.MergeFrom(before)), "accept the agent of %s", c.Name)
}

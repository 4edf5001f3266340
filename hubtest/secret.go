// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	corev1 "k8s.io/api/core/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// RegisterBySecret stores a kubeconfig in a Secret with the label clusterfx.dev/cluster, changed by changes, from
// which the hub creates the Cluster; its annotations configure that, the Clusters option does not. It does not wait;
// see WaitReady.
func (r *Remote) RegisterBySecret(changes ...func(*corev1.Secret)) {
	r.tb.Helper()
	if r.state.credential == nil {
		r.mint((*fleet.Cluster).MintToken, 0)
	}
	secret := r.secret(r.state.credential)
	secret.Labels = map[string]string{hubv1.LabelCluster: hubv1.LabelClusterValue}
	for _, change := range changes {
		change(secret)
	}
	r.must(r.hub().Create(r.tb.Context(), secret), "register %s by a Secret", r.Name())
	r.state.bySecret = true
}

// Kubeconfig connects through the proxy with its faults, with a token of its own and the hub's permissions: for a
// part under test that connects itself, or a Secret that the test writes.
func (r *Remote) Kubeconfig() []byte {
	r.tb.Helper()
	return r.throughProxy(r.minted((*fleet.Cluster).MintToken, 0))
}

func (r *Remote) throughProxy(credential *fleet.Credential) []byte {
	r.tb.Helper()
	kubeconfig, err := r.way.proxy.Kubeconfig(credential.Kubeconfig())
	r.must(err, "write the kubeconfig of %s", r.Name())
	return kubeconfig
}

func (r *Remote) secret(credential *fleet.Credential) *corev1.Secret {
	r.tb.Helper()
	return &corev1.Secret{ObjectMeta: r.secretMeta(), Data: map[string][]byte{"kubeconfig": r.throughProxy(credential)}}
}

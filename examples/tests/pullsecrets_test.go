// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/examples/vcluster/pullsecrets"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

func pullSecret(namespace, name, user string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: meta(namespace, name), Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"r":{"username":"` + user + `"}}}`)},
	}
}

func TestPullSecrets(t *testing.T) {
	t.Parallel()
	p := start(t, func(p *pair) []syncer.Item { return []syncer.Item{pullsecrets.Item(p.id, p.upNS)} })
	theirs := pullSecret(p.downNS, "taken", "tenant")
	create(t, p.down, theirs)
	elsewhere := pullSecret(fleettest.Namespace(t, p.up, "vc-"), "elsewhere", "a")
	ofTenant := pullSecret(p.upNS, "of-tenant", "a")
	ofTenant.Labels = map[string]string{p.id.Keys().ManagedBy: "another-pair"}
	for _, one := range []*corev1.Secret{
		elsewhere, ofTenant, secret(p.upNS, "opaque", "a"), pullSecret(p.upNS, "taken", "host"), pullSecret(p.upNS, "a", "a"),
	} {
		create(t, p.up, one)
	}
	copied := pullSecret(p.downNS, "a", "")
	user := func(name string) func() error {
		return func() error {
			return expect(string(copied.Data[corev1.DockerConfigJsonKey]), `{"auths":{"r":{"username":"`+name+`"}}}`)
		}
	}
	waitFor(t, p.down, copied, user("a"))

	// Changes of the tenant are reverted, and a deleted copy is made again.
	must(t, p.down.Update(t.Context(), &corev1.Secret{
		ObjectMeta: copied.ObjectMeta, Type: copied.Type, Data: pullSecret("", "", "tenant").Data,
	}))
	waitFor(t, p.down, copied, user("a"))
	must(t, p.down.Delete(t.Context(), copied))
	waitFor(t, p.down, copied, user("a"))

	// A Secret that has become another Secret of a type that is not copied takes its copy away.
	original := pullSecret(p.upNS, "a", "")
	must(t, p.up.Delete(t.Context(), original))
	create(t, p.up, secret(p.upNS, "a", "opaque"))
	fleettest.Gone(t, p.down, copied)
	must(t, p.up.Delete(t.Context(), original))
	create(t, p.up, pullSecret(p.upNS, "a", "b"))
	waitFor(t, p.down, copied, user("b"))
	must(t, p.up.Delete(t.Context(), original))
	fleettest.Gone(t, p.down, copied)

	p.conflict(t, "taken")
	unchanged(t, p.down, theirs)
	for _, name := range []string{"elsewhere", "of-tenant", "opaque"} {
		fleettest.Gone(t, p.down, pullSecret(p.downNS, name, ""))
	}
}

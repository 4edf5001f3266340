// SPDX-License-Identifier: Apache-2.0

package crdtest_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func field(u *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(u.Object, path...)
	return s
}

// issue writes the Secret and the status of a Certificate downstream, as cert-manager does.
func (p *pair) issue(t *testing.T, c *unstructured.Unstructured, key string) *corev1.Secret {
	t.Helper()
	notes, _, _ := unstructured.NestedStringMap(c.Object, "spec", "secretTemplate", "annotations")
	s := secret(p.downNS, field(c, "spec", "secretName"), key)
	s.Annotations = map[string]string{"cert-manager.io/certificate-name": c.GetName()}
	for k, v := range notes {
		s.Annotations[k] = v
	}
	must(t, p.down.Create(t.Context(), s))
	now := "2026-01-01T00:00:00Z"
	condition := map[string]any{
		"type": "Ready", "status": "True", "reason": "Ready", "message": "The certificate is issued", "lastTransitionTime": now,
	}
	must(t, unstructured.SetNestedSlice(c.Object, []any{condition}, "status", "conditions"))
	must(t, p.down.Status().Update(t.Context(), c))
	return s
}

func readyOf(u *unstructured.Unstructured) error {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	if len(conditions) == 1 {
		return nil
	}
	return expect(conditions, "Ready")
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	p := start(t)
	tenantIssuer := object("Issuer", p.upNS, "ca", map[string]any{"ca": map[string]any{"secretName": "ca-key"}})
	cert := object("Certificate", p.upNS, "web", map[string]any{
		"secretName": "web-tls", "dnsNames": []any{"web.example.com"}, "issuerRef": map[string]any{"name": "ca"},
		"keystores": map[string]any{"pkcs12": map[string]any{
			"create": true, "passwordSecretRef": map[string]any{"name": "password", "key": "k"},
		}},
	})
	theirs := object("Certificate", p.downNS, p.downName("taken"), map[string]any{
		"secretName": "host-tls", "dnsNames": []any{"host.example.com"}, "issuerRef": map[string]any{"name": "host", "kind": "ClusterIssuer"},
	})
	must(t, p.down.Create(t.Context(), theirs))
	taken := object("Certificate", p.upNS, "taken", map[string]any{
		"secretName": "taken-tls", "dnsNames": []any{"a.example.com"}, "issuerRef": map[string]any{"name": "c", "kind": "ClusterIssuer"},
	})
	ofTenant := secret(p.upNS, "own", "tenant")
	for _, obj := range []client.Object{
		secret(p.upNS, "ca-key", "1"), secret(p.upNS, "password", "1"), secret(p.upNS, "unused", "1"), ofTenant, tenantIssuer, cert, taken,
	} {
		must(t, p.up.Create(t.Context(), obj))
	}

	// The Certificate, its Issuer and the Secrets that they use go down.
	copied := object("Certificate", p.downNS, p.downName("web"), nil)
	p.wait(t, p.down, copied, func() error {
		return expect(
			[]string{field(copied, "spec", "issuerRef", "name"), field(copied, "spec", "secretName")},
			[]string{p.downName("ca"), p.downName("web-tls")})
	})
	must(t, expect(field(copied, "spec", "keystores", "pkcs12", "passwordSecretRef", "name"), p.downName("password")))
	hostIssuer := object("Issuer", p.downNS, p.downName("ca"), nil)
	p.wait(t, p.down, hostIssuer, func() error { return expect(field(hostIssuer, "spec", "ca", "secretName"), p.downName("ca-key")) })
	password, key := secret(p.downNS, p.downName("password"), ""), secret(p.downNS, p.downName("ca-key"), "")
	p.wait(t, p.down, password, func() error { return nil })
	p.wait(t, p.down, key, func() error { return nil })

	// The status and the issued Secret come back, also after a renewal.
	issued := p.issue(t, copied, "1")
	p.wait(t, p.up, cert, func() error { return readyOf(cert) })
	tls := secret(p.upNS, "web-tls", "")
	p.wait(t, p.up, tls, has(tls, "1"))
	issued.Data["k"] = []byte("2")
	must(t, p.down.Update(t.Context(), issued))
	p.wait(t, p.up, tls, has(tls, "2"))
	must(t, p.up.Delete(t.Context(), tls))
	p.wait(t, p.up, tls, has(tls, "2"))

	// A Secret of the tenant is not overwritten by an issued Secret, nor copied over a Secret of the host.
	second := object("Certificate", p.upNS, "second", map[string]any{
		"secretName": "own", "dnsNames": []any{"b.example.com"}, "issuerRef": map[string]any{"name": "ca", "kind": "Issuer"},
	})
	must(t, p.up.Create(t.Context(), second))
	secondCopy := object("Certificate", p.downNS, p.downName("second"), nil)
	p.wait(t, p.down, secondCopy, func() error { return nil })
	hosts := p.issue(t, secondCopy, "host")
	p.wait(t, p.up, second, func() error { return readyOf(second) })

	// Everything goes when the tenant deletes it; the host keeps the issued Secret, as cert-manager does.
	must(t, p.up.Delete(t.Context(), cert))
	p.gone(t, p.down, copied)
	p.gone(t, p.down, password)
	must(t, p.up.Delete(t.Context(), tls))
	must(t, p.up.Delete(t.Context(), tenantIssuer))
	p.gone(t, p.down, hostIssuer)
	p.gone(t, p.down, key)
	p.gone(t, p.up, tls)
	p.gone(t, p.down, secret(p.downNS, p.downName("unused"), ""))
	for _, one := range []client.Object{theirs, issued, hosts} {
		unchanged(t, p.down, one)
	}
	unchanged(t, p.up, ofTenant)
}

// An issued Secret upstream is deleted with the Secret downstream.
func TestCertificates_IssuedSecretDeleted(t *testing.T) {
	t.Parallel()
	p := start(t)
	must(t, p.up.Create(t.Context(), object("Certificate", p.upNS, "web", map[string]any{
		"secretName": "web-tls", "dnsNames": []any{"web.example.com"}, "issuerRef": map[string]any{"name": "c", "kind": "ClusterIssuer"},
	})))
	copied := object("Certificate", p.downNS, p.downName("web"), nil)
	p.wait(t, p.down, copied, func() error { return expect(field(copied, "spec", "issuerRef", "name"), "c") })
	issued := p.issue(t, copied, "1")
	tls := secret(p.upNS, "web-tls", "")
	p.wait(t, p.up, tls, has(tls, "1"))
	must(t, p.down.Delete(t.Context(), issued))
	p.gone(t, p.up, tls)
}

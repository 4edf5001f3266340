// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

func argo(t *testing.T, tls map[string]any, rest map[string]any) []byte {
	t.Helper()
	rest["tlsClientConfig"] = tls
	text, err := json.Marshal(rest)
	must(t, err)
	return text
}

func TestParse_acceptsEveryForm(t *testing.T) {
	t.Parallel()
	p := shared(t)
	const server = "https://api.example.com:6443"
	base := []byte(baseConfig(t))
	for name, c := range map[string]struct {
		data     map[string][]byte
		options  kubeconfig.Options
		policy   kubeconfig.Policy
		endpoint kubeconfig.Endpoint
		kind     kubeconfig.CredentialType
	}{
		"kubeconfig with a token": {data: map[string][]byte{"kubeconfig": base}},
		"Cluster API":             {data: map[string][]byte{"value": base}},
		"Flux":                    {data: map[string][]byte{"value.yaml": base}},
		"vcluster":                {data: map[string][]byte{"config": base, "certificate-authority": p.ca.cert}},
		"a key of one's own":      {data: map[string][]byte{"mine": base, "kubeconfig": []byte("x")}, options: kubeconfig.Options{Key: "mine"}},
		"the first known key counts": {data: map[string][]byte{
			"kubeconfig": base, "value": []byte("x"), "value.yaml": []byte("x"), "config": []byte("x"), "token": []byte("x"),
		}},
		"kubeconfig in JSON": {data: asKubeconfig(`{"apiVersion":"v1","kind":"Config","current-context":"m",
			"clusters":[{"name":"c","cluster":{"server":"https://api.example.com:6443","certificate-authority-data":"` + b64(p.ca.cert) + `"}}],
			"users":[{"name":"u","user":{"token":"abc"}}],"contexts":[{"name":"m","context":{"cluster":"c","user":"u"}}]}`)},
		"client certificate": {
			data: asKubeconfig(withCertificate(t, p.client)), kind: kubeconfig.ClientCertificate,
		},
		"client certificate with its chain": {
			data: asKubeconfig(withCertificate(t, issued{append(p.client.cert[:len(p.client.cert):len(p.client.cert)], p.ca.cert...), p.client.key})),
			kind: kubeconfig.ClientCertificate,
		},
		"base64 over several lines": {data: asKubeconfig(edit(t, b64(p.ca.cert), "|\n      "+b64(p.ca.cert)[:60]+"\n      "+b64(p.ca.cert)[60:]))},
		"preferences and extensions": {data: asKubeconfig(baseConfig(t) +
			"preferences: {colors: true}\nextensions:\n- name: x\n  extension: {a: {b: [1, true, null, text]}}\n")},
		"no apiVersion and kind": {data: asKubeconfig(strings.TrimPrefix(baseConfig(t), "apiVersion: v1\nkind: Config\n"))},
		"an explicit document":   {data: asKubeconfig("---\n" + baseConfig(t) + "...\n")},
		"upper case and a slash": {data: asKubeconfig(withServer(t, "HTTPS://API.example.COM:6443/"))},
		"Argo CD with a token": {data: map[string][]byte{
			"name": []byte("x"), "server": []byte(server + "\n"),
			"config": argo(t, map[string]any{"caData": p.ca.cert}, map[string]any{"bearerToken": canaryToken}),
		}},
		"Argo CD with a client certificate": {data: map[string][]byte{
			"server": []byte(server), "config": argo(t, map[string]any{
				"caData": p.ca.cert, "certData": p.client.cert, "keyData": p.client.key, "insecure": false,
			}, map[string]any{"execProviderConfig": nil, "awsAuthConfig": nil, "disableCompression": true}),
		}, kind: kubeconfig.ClientCertificate},
		"ServiceAccount token": {data: map[string][]byte{
			"token": []byte(canaryToken + "\n"), "server": []byte(server), "ca.crt": p.ca.cert, "namespace": []byte("x"),
		}},
		"ServiceAccount token, server in the Cluster": {
			data: map[string][]byte{"token": []byte("abc"), "ca.crt": p.ca.cert}, options: kubeconfig.Options{Server: server},
		},
		"Karmada": {data: map[string][]byte{"token": []byte("abc"), "server": []byte(server), "caBundle": p.ca.cert}},
		"key token by name": {
			data:    map[string][]byte{"kubeconfig": []byte("x"), "token": []byte("abc"), "server": []byte(server), "ca.crt": p.ca.cert},
			options: kubeconfig.Options{Key: "token"},
		},
		"token without a CA": {
			data: map[string][]byte{"token": []byte("abc"), "server": []byte(server)}, endpoint: kubeconfig.Endpoint{Server: server},
		},
		"kubeconfig without a CA": {
			data: asKubeconfig(edit(t, "certificate-authority-data: "+b64(p.ca.cert), "disable-compression: true")), endpoint: kubeconfig.Endpoint{Server: server},
		},
		"text around the CA": {data: map[string][]byte{
			"token": []byte("abc"), "server": []byte(server), "ca.crt": append([]byte("# Issuer: somebody\n"), p.ca.cert...),
		}},
		"everything overridden": {
			data: asKubeconfig(baseConfig(t)), policy: kubeconfig.Policy{AllowProxyURL: true},
			options: kubeconfig.Options{Server: "https://10.0.0.1:6443", TLSServerName: "example.com", ProxyURL: "socks5://10.0.0.2:1080"},
			endpoint: kubeconfig.Endpoint{
				Server: "https://10.0.0.1:6443", TLSServerName: "example.com", ProxyURL: "socks5://10.0.0.2:1080", CAData: p.ca.cert,
			},
		},
		"a denied address that is overridden": {
			data: asKubeconfig(withServer(t, "https://127.0.0.1:8443")), options: kubeconfig.Options{Server: server},
		},
		"another context": {
			data: asKubeconfig(baseConfig(t) + "- name: second\n  context: {cluster: remote, user: admin}\n"), options: kubeconfig.Options{Context: "second"},
		},
		"insecure, and allowed": {
			data:   asKubeconfig(edit(t, "certificate-authority-data: "+b64(p.ca.cert), "insecure-skip-tls-verify: true")),
			policy: kubeconfig.Policy{AllowInsecureTLS: true}, endpoint: kubeconfig.Endpoint{Server: server, Insecure: true},
		},
		"loopback, and allowed": {
			data: asKubeconfig(withServer(t, "https://127.0.0.1:6443")), policy: loopback(),
			endpoint: kubeconfig.Endpoint{Server: "https://127.0.0.1:6443", CAData: p.ca.cert},
		},
		"a path, as Rancher has": {
			data:     asKubeconfig(withServer(t, "https://rancher.example.com/k8s/clusters/c-m-1:2")),
			endpoint: kubeconfig.Endpoint{Server: "https://rancher.example.com/k8s/clusters/c-m-1:2", CAData: p.ca.cert},
		},
		"IPv6": {
			data:     asKubeconfig(withServer(t, "https://[2001:DB8::1]:6443")),
			endpoint: kubeconfig.Endpoint{Server: "https://[2001:db8::1]:6443", CAData: p.ca.cert},
		},
		"an expired user that is not used": {data: asKubeconfig(edit(t, "users:\n", "users:\n- name: old\n  user:\n    client-certificate-data: "+
			b64(p.expired.cert)+"\n    client-key-data: "+b64(p.expired.key)+"\n"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.options.Now = now
			got, err := kubeconfig.Parse(c.data, c.options, c.policy)
			must(t, err)
			if c.endpoint.Server == "" {
				c.endpoint = kubeconfig.Endpoint{Server: server, CAData: p.ca.cert}
			}
			switch got.Endpoint.CAKey {
			case "ca.crt", "caBundle", "caData", "certificate-authority-data":
			default:
				t.Errorf("got CA from %q, want a known key", got.Endpoint.CAKey)
			}
			c.endpoint.CAKey = got.Endpoint.CAKey
			testkit.Equal(t, got.Endpoint, c.endpoint, "endpoint")
			if c.kind == "" {
				c.kind = kubeconfig.Token
			}
			testkit.Equal(t, got.Credential.Type(), c.kind, "type")
		})
	}
}

func jwt(payload string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(payload)) + "." + encode([]byte(canaryToken))
}

func TestCredential_Expires(t *testing.T) {
	t.Parallel()
	later := now().Add(time.Hour)
	for name, c := range map[string]struct {
		token string
		want  time.Time
	}{
		"a JWT":                       {jwt(fmt.Sprintf(`{"exp":%d}`, later.Unix())), later},
		"a JWT with a fraction":       {jwt(fmt.Sprintf(`{"exp":%d.5}`, later.Unix())), later},
		"a JWT without exp":           {jwt(`{"sub":"x"}`), time.Time{}},
		"exp is not a number":         {jwt(`{"exp":"tomorrow"}`), time.Time{}},
		"exp is negative":             {jwt(`{"exp":-5}`), time.Time{}},
		"exp is beyond all calendars": {jwt(`{"exp":1e300}`), time.Time{}},
		"three parts, no JWT":         {"a.b.c", time.Time{}},
		"base64, but no JSON":         {"YQ.YQ.YQ", time.Time{}},
		"an opaque token":             {canaryToken, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parse(t, withUser(t, "token: "+c.token)).Credential.Expires()
			if !got.Equal(c.want) {
				t.Errorf("got expiry %v, want %v", got, c.want)
			}
		})
	}
	t.Run("a client certificate", func(t *testing.T) {
		t.Parallel()
		got := parse(t, withCertificate(t, shared(t).client)).Credential.Expires()
		if want := now().AddDate(50, 0, 0); !got.Equal(want) {
			t.Errorf("got expiry %v, want %v", got, want)
		}
	})
}

// parse returns the connection of a kubeconfig that must be valid, including one for loopback.
func parse(tb testing.TB, text string) kubeconfig.Connection {
	tb.Helper()
	got, err := kubeconfig.Parse(asKubeconfig(text), kubeconfig.Options{Now: now}, loopback())
	must(tb, err)
	return got
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	p := shared(t)
	key := []byte("0123456789abcdef0123456789abcdef")
	base := parse(t, baseConfig(t))
	t.Run("stays with the meaning", func(t *testing.T) {
		t.Parallel()
		same := parse(t, edit(t, "https://api.example.com:6443", `"https://API.example.com:6443/"`))
		if base.Endpoint.Fingerprint() != same.Endpoint.Fingerprint() {
			t.Error("the fingerprints of the endpoints differ")
		}
		if base.Credential.Fingerprint(key) != same.Credential.Fingerprint(key) || !base.Credential.Equal(same.Credential) {
			t.Error("the fingerprints of the credentials differ")
		}
	})
	t.Run("changes with every part of an endpoint", func(t *testing.T) {
		t.Parallel()
		e := base.Endpoint
		seen := map[string]bool{}
		for _, other := range []kubeconfig.Endpoint{
			e,
			{Server: e.Server + "1", CAData: e.CAData},
			{Server: e.Server, CAData: p.other.cert},
			{Server: e.Server, CAData: e.CAData, TLSServerName: "x"},
			{Server: e.Server, CAData: e.CAData, ProxyURL: "x"},
			{Server: e.Server, CAData: e.CAData, Insecure: true},
		} {
			seen[other.Fingerprint()] = true
		}
		testkit.Equal(t, len(seen), 6, "different fingerprints")
	})
	t.Run("changes with the credential and with the key", func(t *testing.T) {
		t.Parallel()
		a := base.Credential
		seen := map[string]bool{a.Fingerprint(key): true, a.Fingerprint(key[:31]): true}
		for _, text := range []string{
			withUser(t, "token: other"), withCertificate(t, p.client), withCertificate(t, p.second),
		} {
			b := parse(t, text).Credential
			seen[b.Fingerprint(key)] = true
			if a.Equal(b) || b.Equal(a) {
				t.Error("different credentials are equal")
			}
		}
		testkit.Equal(t, len(seen), 5, "different fingerprints")
	})
	t.Run("is short, and empty for no credential", func(t *testing.T) {
		t.Parallel()
		testkit.Equal(t, len(base.Credential.Fingerprint(key)), 32, "characters")
		var none kubeconfig.Credential
		if none.Fingerprint(key) != "" || none.Type() != "" || !none.Expires().IsZero() || !none.Equal(kubeconfig.Credential{}) || none.Equal(base.Credential) {
			t.Error("the zero value is not an empty credential")
		}
	})
}

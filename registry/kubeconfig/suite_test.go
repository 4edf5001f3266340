// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

func TestMain(m *testing.M) { os.Exit(fleettest.Main(m, fleettest.NoLeaks())) }

// Canaries are secrets that must not appear anywhere.
const (
	canaryToken    = "tOk9zQ7xWv4kJ2pL8mN3rT6y"
	canaryPassword = "pAs5yX6wQv1uZ9hG4fD7sK2j"
)

// now is the time at which the tests check expiry.
func now() time.Time { return time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC) }

// issued is a certificate with its key, in PEM.
type issued struct{ cert, key []byte }

// pki has two certificate authorities, and certificates that the first has issued.
type pki struct {
	ca, other               issued // two authorities
	client, second, expired issued // client certificates
	server, old             issued // server certificates; old has expired
}

// shared returns the certificates that the tests share.
func shared(tb testing.TB) *pki {
	tb.Helper()
	return sharedPKI()
}

var sharedPKI = sync.OnceValue(func() *pki {
	p := &pki{}
	later := now().AddDate(50, 0, 0)
	ca, parent, key := issue("test-ca", nil, nil, later)
	p.ca = ca
	p.other, _, _ = issue("other-ca", nil, nil, later)
	p.client, _, _ = issue("client", parent, key, later)
	p.second, _, _ = issue("second", parent, key, later)
	p.server, _, _ = issue("server", parent, key, later)
	p.expired, _, _ = issue("expired", parent, key, now().AddDate(0, 0, -1))
	p.old, _, _ = issue("old", parent, key, now().AddDate(-9, 0, 0))
	return p
})

// issue makes a certificate, which is self-signed if it has no parent.
func issue(name string, parent *x509.Certificate, by crypto.Signer, end time.Time) (issued, *x509.Certificate, crypto.Signer) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	panicOn(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now().AddDate(-10, 0, 0), NotAfter: end,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: parent == nil,
		DNSNames: []string{"localhost", "example.com"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	panicOn(err)
	certificate, err := x509.ParseCertificate(der)
	panicOn(err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	panicOn(err)
	return issued{cert: inPEM("CERTIFICATE", der), key: inPEM("PRIVATE KEY", pkcs8)}, certificate, key
}

func panicOn(err error) {
	if err != nil {
		panic(err)
	}
}

func inPEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func b64(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// baseConfig is a valid kubeconfig with a token. Cases replace parts of it.
func baseConfig(tb testing.TB) string {
	tb.Helper()
	return `apiVersion: v1
kind: Config
current-context: main
clusters:
- name: remote
  cluster:
    server: https://api.example.com:6443
    certificate-authority-data: ` + b64(shared(tb).ca.cert) + `
users:
- name: admin
  user:
    token: ` + canaryToken + `
contexts:
- name: main
  context: {cluster: remote, user: admin, namespace: default}
`
}

// edit returns the base kubeconfig with a part replaced, which must exist.
func edit(tb testing.TB, old, replacement string) string {
	tb.Helper()
	base := baseConfig(tb)
	if !strings.Contains(base, old) {
		tb.Fatalf("the base kubeconfig has no %q", old)
	}
	return strings.Replace(base, old, replacement, 1)
}

// withUser returns the base kubeconfig with another user, given as lines or in flow style.
func withUser(tb testing.TB, fields ...string) string {
	tb.Helper()
	return edit(tb, "token: "+canaryToken, strings.Join(fields, "\n    "))
}

func withCluster(tb testing.TB, fields ...string) string {
	tb.Helper()
	return edit(tb, "server: https://api.example.com:6443", "server: https://api.example.com:6443\n    "+strings.Join(fields, "\n    "))
}

func withServer(tb testing.TB, server string) string {
	tb.Helper()
	return edit(tb, "https://api.example.com:6443", server)
}

// withCertificate returns the base kubeconfig with a client certificate instead of the token.
func withCertificate(tb testing.TB, c issued) string {
	tb.Helper()
	return withUser(tb, "client-certificate-data: "+b64(c.cert), "client-key-data: "+b64(c.key))
}

func asKubeconfig(text string) map[string][]byte {
	return map[string][]byte{"kubeconfig": []byte(text)}
}

func loopback() kubeconfig.Policy {
	return kubeconfig.Policy{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
}

// leaked returns a part of a secret that the text contains, or "".
func leaked(text string, secrets ...string) string {
	for _, secret := range secrets {
		window := 6
		if strings.Contains(secret, " ") { // bytes as numbers, which other texts have, too
			window = 40
		}
		for i := 0; i+window <= len(secret); i++ {
			if part := secret[i : i+window]; strings.Contains(text, part) {
				return part
			}
		}
	}
	return ""
}

func keyText(key []byte) string {
	block, _ := pem.Decode(key)
	return base64.StdEncoding.EncodeToString(block.Bytes)[40:]
}

var must = testkit.Must

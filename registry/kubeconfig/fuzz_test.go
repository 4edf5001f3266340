// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Forms into which the fuzz target puts its bytes.
const (
	formKubeconfig = iota
	formArgoCD
	formToken
	formServer
	formCA
	formSpecServer
	forms
)

// formed returns data with the bytes in the place of the form.
func formed(form uint8, raw []byte) (map[string][]byte, kubeconfig.Options) {
	server := []byte("https://api.example.com")
	o := kubeconfig.Options{Now: now}
	switch form % forms {
	case formArgoCD:
		return map[string][]byte{"server": server, "config": raw}, o
	case formToken:
		return map[string][]byte{"server": server, "token": raw}, o
	case formServer:
		return map[string][]byte{"server": raw, "token": []byte("abc")}, o
	case formCA:
		return map[string][]byte{"server": server, "token": []byte("abc"), "ca.crt": raw}, o
	case formSpecServer:
		o.Server = string(raw)
		return map[string][]byte{"token": []byte("abc")}, o
	}
	return asKubeconfig(string(raw)), o
}

// FuzzParse checks the guarantees of Parse for input of any kind. It starts with the corpus in testdata, which has
// input of every form, and with the cases of TestParse_rejects. Run it with -fuzzminimizetime=5x: minimizing
// kubeconfigs of 2 KB takes longer than finding them.
func FuzzParse(f *testing.F) {
	f.Add(uint8(formKubeconfig), []byte(baseConfig(f)))
	f.Add(uint8(formKubeconfig), []byte(withCertificate(f, shared(f).client)))
	for _, group := range rejections(f) {
		for _, c := range group {
			if raw, found := c.data["kubeconfig"]; found && len(raw) < 4<<10 {
				f.Add(uint8(formKubeconfig), raw)
			}
		}
	}
	f.Fuzz(func(t *testing.T, form uint8, raw []byte) {
		data, options := formed(form, raw)
		got, err := kubeconfig.Parse(data, options, kubeconfig.Policy{})
		if err != nil {
			checkRejected(t, data, options, err)
			return
		}
		if len(raw) > 64<<10 {
			t.Fatalf("Parse accepts %d bytes", len(raw))
		}
		checkAccepted(t, got)
		if form%forms == formKubeconfig {
			checkAgainstClientcmd(t, raw, got)
		}
	})
}

// checkRejected checks that the error has one reason, the same each time, and a message without secrets.
func checkRejected(t *testing.T, data map[string][]byte, o kubeconfig.Options, err error) {
	t.Helper()
	var got, again *kubeconfig.Error
	if !errors.As(err, &got) || !isReason(got.Reason) {
		t.Fatalf("got error %v without a reason", err)
	}
	_, err = kubeconfig.Parse(data, o, kubeconfig.Policy{})
	if !errors.As(err, &again) || got.Error() != again.Error() || got.Reason != again.Reason {
		t.Fatalf("got %v, then %v for the same input", got, err)
	}
	text := got.Error()
	if len(text) > 512 || strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
		t.Fatalf("got a message of %d bytes: %q", len(text), text)
	}
	if part := leaked(text, canaryToken, canaryPassword); part != "" {
		t.Fatalf("got %q of a secret in %q", part, text)
	}
}

func isReason(r kubeconfig.Reason) bool {
	switch r {
	case kubeconfig.ReasonKeyNotFound, kubeconfig.ReasonInvalidKubeconfig, kubeconfig.ReasonExecNotAllowed,
		kubeconfig.ReasonInsecureTLSNotAllowed, kubeconfig.ReasonFilePathNotAllowed, kubeconfig.ReasonAuthProviderNotAllowed,
		kubeconfig.ReasonImpersonationNotAllowed, kubeconfig.ReasonBasicAuthNotAllowed, kubeconfig.ReasonSchemeNotAllowed,
		kubeconfig.ReasonProxyNotAllowed, kubeconfig.ReasonAddressNotAllowed, kubeconfig.ReasonTooLarge, kubeconfig.ReasonExpired:
		return true
	}
	return false
}

// checkAccepted checks the properties of every connection that the safest Policy accepts.
func checkAccepted(t *testing.T, c kubeconfig.Connection) {
	t.Helper()
	u, err := url.Parse(c.Endpoint.Server)
	if err != nil || u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Hostname() == "" ||
		strings.Contains(u.EscapedPath(), "%") || strings.Contains(u.Path+"/", "/../") || strings.Contains(u.Path+"/", "/./") {
		t.Fatalf("Parse accepts server %q", c.Endpoint.Server)
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && (kubeconfig.Policy{}).CheckAddr(addr) != nil {
		t.Fatalf("Parse accepts address %s", addr)
	}
	if c.Endpoint.Insecure || c.Endpoint.ProxyURL != "" || c.Credential.Type() == "" {
		t.Fatalf("Parse accepts %+v", c)
	}
	transport, err := kubeconfig.NewTransport(c, kubeconfig.Policy{})
	if err != nil {
		t.Fatalf("NewTransport for a connection that Parse accepts: %v", err)
	}
	transport.Close()
}

// checkAgainstClientcmd checks that kubectl would connect to the same server as the same user. clientcmd opens the
// files that a kubeconfig names, so that this function must not get a kubeconfig with file names.
func checkAgainstClientcmd(t *testing.T, raw []byte, got kubeconfig.Connection) {
	t.Helper()
	config, err := clientcmd.Load(raw)
	if err != nil {
		t.Fatalf("clientcmd does not load the kubeconfig: %v", err)
	}
	for _, user := range config.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil || user.TokenFile+user.ClientCertificate+user.ClientKey != "" ||
			user.Impersonate+user.ImpersonateUID+user.Username+user.Password != "" || len(user.ImpersonateGroups)+len(user.ImpersonateUserExtra) > 0 {
			t.Fatal("Parse accepts a user that it must refuse")
		}
	}
	for _, cluster := range config.Clusters {
		if cluster.CertificateAuthority != "" || cluster.InsecureSkipTLSVerify || cluster.ProxyURL != "" {
			t.Fatal("Parse accepts a cluster that it must refuse")
		}
	}
	want, err := clientcmd.NewDefaultClientConfig(*config, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		t.Fatalf("clientcmd does not accept the kubeconfig: %v", err)
	}
	checkSame(t, want, got)
}

func checkSame(t *testing.T, want *rest.Config, got kubeconfig.Connection) {
	t.Helper()
	u, err := url.Parse(want.Host)
	must(t, err)
	if host := "https://" + strings.ToLower(u.Host) + strings.TrimRight(u.Path, "/"); host != got.Endpoint.Server {
		t.Fatalf("got server %q, want %q as in clientcmd", got.Endpoint.Server, host)
	}
	if want.ServerName != got.Endpoint.TLSServerName {
		t.Fatalf("got server name %q, want %q as in clientcmd", got.Endpoint.TLSServerName, want.ServerName)
	}
	if !bytes.Equal(authorities(want.CAData), authorities(got.Endpoint.CAData)) {
		t.Fatal("clientcmd has another CA")
	}
	user := kubeconfig.Connection{Endpoint: got.Endpoint}
	user.Credential = credentialOf(t, want)
	if !user.Credential.Equal(got.Credential) {
		t.Fatal("clientcmd has another user")
	}
}

func authorities(bundle []byte) []byte {
	var all []byte
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return all
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			all = append(all, certificate.Raw...)
		}
	}
}

func credentialOf(t *testing.T, c *rest.Config) kubeconfig.Credential {
	t.Helper()
	user := fmt.Sprintf("{token: %q}", c.BearerToken)
	if c.BearerToken == "" {
		user = fmt.Sprintf("{client-certificate-data: %q, client-key-data: %q}", b64(c.CertData), b64(c.KeyData))
	}
	got, err := kubeconfig.Parse(asKubeconfig(fmt.Sprintf(`
current-context: a
clusters: [{name: a, cluster: {server: 'https://a'}}]
users: [{name: a, user: %s}]
contexts: [{name: a, context: {cluster: a, user: a}}]`, user)), kubeconfig.Options{Now: now}, kubeconfig.Policy{})
	must(t, err)
	return got.Credential
}

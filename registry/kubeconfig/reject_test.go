// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// rejection is invalid input with the expected error.
type rejection struct {
	data    map[string][]byte
	options kubeconfig.Options
	policy  kubeconfig.Policy
	reason  kubeconfig.Reason
	key     string // default kubeconfig, "-" for no key
	field   string
}

func reject(text string, reason kubeconfig.Reason, field string) rejection {
	return rejection{data: asKubeconfig(text), reason: reason, field: field}
}

func invalid(text, field string) rejection {
	return reject(text, kubeconfig.ReasonInvalidKubeconfig, field)
}

func rejections(tb testing.TB) []map[string]rejection {
	tb.Helper()
	return []map[string]rejection{
		syntaxRejections(tb), userRejections(tb), clusterRejections(tb), contextRejections(tb), formRejections(tb),
	}
}

func syntaxRejections(tb testing.TB) map[string]rejection {
	tb.Helper()
	base := baseConfig(tb)
	list := func(entry string, n int) string {
		var out strings.Builder
		for i := range n {
			fmt.Fprintf(&out, entry, i)
		}
		return out.String()
	}
	const tooLarge = kubeconfig.ReasonTooLarge
	return map[string]rejection{
		"empty":                         invalid("", ""),
		"white space":                   invalid(" \n\t\n", ""),
		"only a comment":                invalid("# nothing\n", ""),
		"a text":                        invalid("hello", ""),
		"a bare token":                  invalid(canaryToken, ""),
		"a list":                        invalid("- a\n- b\n", ""),
		"null":                          invalid("null", ""),
		"an empty mapping":              invalid("{}", "current-context"),
		"not YAML":                      invalid("{{{{", ""),
		"bytes that are not UTF-8":      invalid("a: \xff\xfe\xfd", ""),
		"a NUL byte":                    invalid("a: \x00", ""),
		"cut off in a quote":            invalid(`users: "`+canaryToken, ""),
		"tabs for indentation":          invalid("users:\n\t- name: x\n", ""),
		"two documents":                 invalid(base+"---\n"+base, ""),
		"a second document after dots":  invalid(base+"...\n"+base, ""),
		"a second document is no YAML":  invalid(base+"---\n{{{"+canaryToken, ""),
		"a second, empty document":      invalid(base+"---\n---\n", ""),
		"an anchor":                     invalid(edit(tb, "name: admin", "name: &a admin"), "users[0].name"),
		"an alias":                      invalid("a: &x 1\nb: *x\n", "a"),
		"an alias bomb":                 invalid("a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n", "a"),
		"a merge key":                   invalid("users:\n- name: x\n  <<: {user: {token: "+canaryToken+"}}\n", "users[0]"),
		"a YAML tag":                    invalid(withUser(tb, "token: !!binary "+b64([]byte(canaryToken))), "users[0].user.token"),
		"a local YAML tag":              invalid(withUser(tb, "token: !secret "+canaryToken), "users[0].user.token"),
		"a number for a key":            invalid("7: x\n", ""),
		"a list for a key":              invalid("? [a, b]\n: x\n", ""),
		"a field twice":                 invalid(base+"kind: Config\n", "kind"),
		"a token twice":                 invalid(withUser(tb, "token: a", "token: "+canaryToken), "users[0].user.token"),
		"a field twice, quoted":         invalid(base+"\"kind\": Config\n", "kind"),
		"17 levels":                     invalid("extensions: "+strings.Repeat("[", 17)+strings.Repeat("]", 17), "extensions"+strings.Repeat("[0]", 15)),
		"4000 levels":                   invalid("a: "+strings.Repeat("[", 4000)+strings.Repeat("]", 4000), "a"+strings.Repeat("[0]", 15)),
		"5000 values":                   reject("a: ["+strings.Repeat("a,", 5000)+"]", tooLarge, ""),
		"5000 lines":                    reject(base+strings.Repeat("\n", 5000), tooLarge, ""),
		"2000 levels, not closed":       invalid(strings.Repeat("{a: ", 2000), ""),
		"an unknown field":              invalid(withCluster(tb, "sever: x"), "clusters[0].cluster.sever"),
		"an unknown field of a user":    invalid(withUser(tb, "tokne: "+canaryToken), "users[0].user.tokne"),
		"an unknown field at the top":   invalid(base+"clutsers: []\n", "clutsers"),
		"a field in the wrong case":     invalid(withUser(tb, "Token: "+canaryToken), "users[0].user.Token"),
		"a token where a field belongs": invalid(withUser(tb, canaryToken+":"), "users[0].user.?"),
		"a token twice as a field":      invalid(withUser(tb, canaryToken+": a", canaryToken+": a"), "users[0].user.?"),
		"a number for a token":          invalid(withUser(tb, "token: 1234567890"), "users.user.token"),
		"a boolean for a token":         invalid(withUser(tb, "token: yes"), "users.user.token"),
		"a mapping for a token":         invalid(withUser(tb, "token: {a: "+canaryToken+"}"), "users.user.token"),
		"a text for a list":             invalid("users: "+canaryToken, "users"),
		"a text for a boolean":          invalid(withCluster(tb, "insecure-skip-tls-verify: "+canaryToken), "clusters.cluster.insecure-skip-tls-verify"),
		"a number too large for JSON":   invalid("extensions: .inf\n", ""),
		"CA not in base64":              invalid(edit(tb, b64(shared(tb).ca.cert), "'-----BEGIN'"), "clusters[0].cluster.certificate-authority-data"),
		"key not in base64":             invalid(withUser(tb, "client-key-data: '-"+canaryToken+"'"), "users[0].user.client-key-data"),
		"another kind":                  invalid(strings.Replace(base, "kind: Config", "kind: Secret", 1), "kind"),
		"another version":               invalid(strings.Replace(base, "apiVersion: v1", "apiVersion: v2", 1), "apiVersion"),
		"65537 bytes":                   reject(base+"#"+strings.Repeat("x", 64<<10-len(base)), tooLarge, ""),
		"a megabyte":                    reject(strings.Repeat(canaryToken, 50000), tooLarge, ""),
		"9 clusters":                    reject("clusters:\n"+list("- {name: c%d, cluster: {server: 'https://a'}}\n", 9), tooLarge, "clusters"),
		"9 users":                       reject("users:\n"+list("- {name: c%d, user: {token: a}}\n", 9), tooLarge, "users"),
		"9 contexts":                    reject("contexts:\n"+list("- {name: c%d, context: {cluster: a, user: b}}\n", 9), tooLarge, "contexts"),
		"9 extensions":                  reject("extensions:\n"+list("- {name: c%d, extension: {}}\n", 9), tooLarge, "extensions"),
	}
}

func userRejections(tb testing.TB) map[string]rejection {
	tb.Helper()
	p := shared(tb)
	file, as := kubeconfig.ReasonFilePathNotAllowed, kubeconfig.ReasonImpersonationNotAllowed
	user := func(reason kubeconfig.Reason, field string, lines ...string) rejection {
		return reject(withUser(tb, lines...), reason, "users[0].user."+field)
	}
	broken := func(field string, lines ...string) rejection {
		return user(kubeconfig.ReasonInvalidKubeconfig, field, lines...)
	}
	token := "token: " + canaryToken
	cert := func(c []byte) string { return "client-certificate-data: " + b64(c) }
	key := func(k []byte) string { return "client-key-data: " + b64(k) }
	encrypted := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte(canaryPassword)})
	legacy := pem.EncodeToMemory(&pem.Block{
		Type: "EC PRIVATE KEY", Bytes: []byte(canaryPassword),
		Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-256-CBC,00"},
	})
	basic := kubeconfig.ReasonBasicAuthNotAllowed
	return map[string]rejection{
		"exec":                  user(kubeconfig.ReasonExecNotAllowed, "exec", "exec: {apiVersion: client.authentication.k8s.io/v1, command: id, args: ["+canaryPassword+"]}"),
		"exec beside a token":   user(kubeconfig.ReasonExecNotAllowed, "exec", token, "exec: {command: id}"),
		"an empty exec":         user(kubeconfig.ReasonExecNotAllowed, "exec", token, "exec: {}"),
		"auth-provider":         user(kubeconfig.ReasonAuthProviderNotAllowed, "auth-provider", "auth-provider: {name: gcp, config: {access-token: "+canaryToken+"}}"),
		"tokenFile":             user(file, "tokenFile", "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token"),
		"tokenFile and a token": user(file, "tokenFile", token, "tokenFile: /dev/zero"),
		"client-certificate":    user(file, "client-certificate", "client-certificate: /etc/a.pem"),
		"client-key":            user(file, "client-key", cert(p.client.cert), "client-key: /etc/a.key"),
		"as":                    user(as, "as", token, "as: "+canaryPassword),
		"as-uid":                user(as, "as-uid", token, "as-uid: '1'"),
		"as-groups":             user(as, "as-groups", token, "as-groups: ['system:masters']"),
		"as-user-extra":         user(as, "as-user-extra", token, "as-user-extra: {scopes: ["+canaryPassword+"]}"),
		"username":              user(basic, "username", "username: "+canaryPassword, "password: "+canaryPassword),
		"password":              user(basic, "password", token, "password: "+canaryPassword),
		"exec in another user": reject(edit(tb, "contexts:\n", "- name: other\n  user: {exec: {command: id}}\ncontexts:\n"),
			kubeconfig.ReasonExecNotAllowed, "users[1].user.exec"),
		"tokenFile in another user": reject(edit(tb, "users:\n", "users:\n- name: other\n  user: {tokenFile: /a}\n"),
			file, "users[0].user.tokenFile"),
		"no credential":            invalid(withUser(tb, "{}"), "users[0].user"),
		"an empty token":           invalid(withUser(tb, "token: ''"), "users[0].user"),
		"null for a user":          invalid(edit(tb, "  user:\n    token: "+canaryToken, "  user:"), "users[0].user"),
		"a line break in a token":  broken("token", `token: "`+canaryToken+`\nX-Evil: 1"`),
		"a line break at the end":  broken("token", "token: |\n      "+canaryToken),
		"a space in a token":       broken("token", "token: "+canaryToken+" x"),
		"a NUL in a token":         broken("token", `token: "`+canaryToken+`\0"`),
		"an umlaut in a token":     broken("token", "token: "+canaryToken+"ä"),
		"a token and a cert":       invalid(withUser(tb, token, cert(p.client.cert), key(p.client.key)), "users[0].user"),
		"a token and half a cert":  invalid(withUser(tb, token, key(p.client.key)), "users[0].user"),
		"a cert without its key":   broken("client-key-data", cert(p.client.cert)),
		"a key without its cert":   broken("client-certificate-data", key(p.client.key)),
		"the key of another cert":  broken("client-key-data", cert(p.client.cert), key(p.second.key)),
		"cert and key swapped":     broken("client-certificate-data", cert(p.client.key), key(p.client.cert)),
		"cert is not PEM":          broken("client-certificate-data", cert([]byte(canaryPassword)), key(p.client.key)),
		"cert is not X.509":        broken("client-certificate-data", cert(inPEM("CERTIFICATE", []byte(canaryPassword))), key(p.client.key)),
		"cert is cut off":          broken("client-certificate-data", cert(p.client.cert[:100]), key(p.client.key)),
		"cert is a request":        broken("client-certificate-data", cert(inPEM("CERTIFICATE REQUEST", []byte("x"))), key(p.client.key)),
		"key is not PEM":           broken("client-key-data", cert(p.client.cert), key([]byte(canaryPassword))),
		"key is not a key":         broken("client-key-data", cert(p.client.cert), key(inPEM("PRIVATE KEY", []byte(canaryPassword)))),
		"key is a certificate":     broken("client-key-data", cert(p.client.cert), key(p.client.cert)),
		"two keys":                 broken("client-key-data", cert(p.client.cert), key(append(p.client.key[:len(p.client.key):len(p.client.key)], p.second.key...))),
		"an encrypted key":         broken("client-key-data", cert(p.client.cert), key(encrypted)),
		"a key encrypted long ago": broken("client-key-data", cert(p.client.cert), key(legacy)),
		"a giant key":              user(kubeconfig.ReasonTooLarge, "client-key-data", cert(p.client.cert), key(inPEM("RSA PRIVATE KEY", make([]byte, 6<<10)))),
		"an ECDH key":              broken("client-key-data", cert(p.client.cert), key(x25519(tb))),
		"33 certificates":          user(kubeconfig.ReasonTooLarge, "client-certificate-data", cert(bytes.Repeat(p.client.cert, 33)), key(p.client.key)),
		"an expired certificate":   reject(withCertificate(tb, p.expired), kubeconfig.ReasonExpired, "users[0].user"),
		"an expired JWT":           reject(withUser(tb, "token: "+jwt(`{"exp":1700000000}`)), kubeconfig.ReasonExpired, "users[0].user"),
		"a JWT that ends now":      reject(withUser(tb, "token: "+jwt(fmt.Sprintf(`{"exp":%d}`, now().Unix()))), kubeconfig.ReasonExpired, "users[0].user"),
		"a broken cert not used": invalid(edit(tb, "users:\n", "users:\n- name: other\n  user: {client-certificate-data: "+b64([]byte("x"))+", client-key-data: eA==}\n"),
			"users[0].user.client-certificate-data"),
	}
}

func x25519(tb testing.TB) []byte {
	tb.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	must(tb, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(tb, err)
	return inPEM("PRIVATE KEY", der)
}

// Promise: a kubeconfig with commands, files, other identities or unverified TLS is refused.
func TestParse_rejects(t *testing.T) {
	t.Parallel()
	total := 0
	for _, group := range rejections(t) {
		total += len(group)
		for name, c := range group {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c.check(t)
			})
		}
	}
	if total < 100 {
		t.Errorf("got %d cases, want 100 or more", total)
	}
}

// check parses twice, to find a reason that depends on the order of a map.
func (c rejection) check(t *testing.T) {
	t.Helper()
	c.options.Now = now
	switch c.key {
	case "":
		c.key = "kubeconfig"
	case "-":
		c.key = ""
	}
	_, err := kubeconfig.Parse(c.data, c.options, c.policy)
	_, again := kubeconfig.Parse(c.data, c.options, c.policy)
	var got *kubeconfig.Error
	if !errors.As(err, &got) {
		t.Fatalf("got error %v, want an *Error", err)
	}
	if got.Reason != c.reason || got.Key != c.key || got.Field != c.field {
		t.Errorf("got reason %s, key %q, field %q; want %s, %q, %q\n%v", got.Reason, got.Key, got.Field, c.reason, c.key, c.field, err)
	}
	if fmt.Sprint(err) != fmt.Sprint(again) {
		t.Errorf("got two errors for one input:\n%v\n%v", err, again)
	}
	checkText(t, err.Error())
	p := shared(t)
	secrets := []string{
		canaryToken, canaryPassword, b64([]byte(canaryToken)), b64([]byte(canaryPassword)),
		keyText(p.client.key), keyText(p.second.key), keyText(p.expired.key),
	}
	for _, text := range []string{err.Error(), fmt.Sprintf("%v %+v %#v", got, *got, got)} {
		if part := leaked(text, secrets...); part != "" {
			t.Errorf("got %q of a secret in %q", part, text)
		}
	}
}

func checkText(t *testing.T, text string) {
	t.Helper()
	if text == "" || len(text) > 512 {
		t.Errorf("got a message of %d bytes, want 1 to 512", len(text))
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }); i >= 0 {
		t.Errorf("byte %d of %q is not printable", i, text)
	}
	if !strings.Contains(text, "; ") {
		t.Errorf("%q has no advice", text)
	}
}

// A key that belongs to another certificate is told as that, and not as one that cannot be read.
func TestParse_KeyOfAnotherCertificate(t *testing.T) {
	t.Parallel()
	p := shared(t)
	_, err := kubeconfig.Parse(asKubeconfig(withCertificate(t, issued{p.client.cert, p.second.key})), kubeconfig.Options{Now: now}, kubeconfig.Policy{})
	if err == nil || !strings.Contains(err.Error(), "does not belong to the client certificate") {
		t.Errorf("got error %v, want that the key does not belong to the certificate", err)
	}
}

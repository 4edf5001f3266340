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
	"net/netip"
	"strings"
	"testing"
	"unicode"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// rejection is bad input with what must be said about it.
type rejection struct {
	data    map[string][]byte
	options kubeconfig.Options
	policy  kubeconfig.Policy
	reason  kubeconfig.Reason
	key     string // default kubeconfig, "-" for none
	field   string
}

// reject is a bad kubeconfig.
func reject(text string, reason kubeconfig.Reason, field string) rejection {
	return rejection{data: asKubeconfig(text), reason: reason, field: field}
}

func invalid(text, field string) rejection {
	return reject(text, kubeconfig.ReasonInvalidKubeconfig, field)
}

// rejections returns every case of bad input.
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

// x25519 returns a private key that cannot sign.
func x25519(tb testing.TB) []byte {
	tb.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return inPEM("PRIVATE KEY", der)
}

func clusterRejections(tb testing.TB) map[string]rejection {
	tb.Helper()
	p := shared(tb)
	scheme, address := kubeconfig.ReasonSchemeNotAllowed, kubeconfig.ReasonAddressNotAllowed
	const inServer, inCA = "clusters[0].cluster.server", "clusters[0].cluster.certificate-authority-data"
	server := func(url string) rejection { return invalid(withServer(tb, url), inServer) }
	denied := func(url string) rejection { return reject(withServer(tb, url), address, inServer) }
	ca := func(pem []byte) rejection { return invalid(edit(tb, b64(p.ca.cert), b64(pem)), inCA) }
	cases := map[string]rejection{
		"no server":                 server("''"),
		"http":                      reject(withServer(tb, "http://api.example.com"), scheme, inServer),
		"no scheme":                 reject(withServer(tb, "api.example.com:6443"), scheme, inServer),
		"ftp":                       reject(withServer(tb, "ftp://api.example.com"), scheme, inServer),
		"a unix socket":             reject(withServer(tb, "unix:///var/run/docker.sock"), scheme, inServer),
		"a file":                    reject(withServer(tb, "file:///etc/passwd"), scheme, inServer),
		"a scheme and nothing":      server("https://"),
		"a port and no host":        server("https://:6443"),
		"three slashes":             server("https:///api.example.com"),
		"userinfo":                  server("https://admin:" + canaryPassword + "@api.example.com"),
		"userinfo without password": server("https://" + canaryPassword + "@api.example.com"),
		"a query":                   server("https://api.example.com/?a=" + canaryPassword),
		"an empty query":            server("https://api.example.com/?"),
		"a fragment":                server("'https://api.example.com/#" + canaryPassword + "'"),
		"an empty fragment":         server("'https://api.example.com/#'"),
		"dot segments":              server("https://api.example.com/a/../b"),
		"a dot segment":             server("https://api.example.com/./a"),
		"encoded dot segments":      server("https://api.example.com/a/%2e%2e/b"),
		"an encoded slash":          server("https://api.example.com/a%2fb"),
		"a double slash":            server("https://api.example.com//a"),
		"a backslash":               server(`https://api.example.com\a`),
		"a backslash in the path":   server(`https://api.example.com/a\..\b`),
		"a space in the host":       server("'https://api example.com'"),
		"a line break in the URL":   server(`"https://api.example.com\nHost: x"`),
		"a percent in the host":     server("https://api%2eexample.com"),
		"an umlaut in the host":     server("https://äpi.example.com"),
		"an underscore dot dot":     server("https://api..example.com"),
		"port 0":                    server("https://api.example.com:0"),
		"port 65536":                server("https://api.example.com:65536"),
		"an empty port":             server("'https://api.example.com:'"),
		"a port that is a name":     server("https://api.example.com:https"),
		"a decimal address":         server("https://2130706433"),
		"a short address":           server("https://127.1"),
		"an octal address":          server("https://0177.0.0.1"),
		"a hexadecimal address":     server("https://0x7f000001"),
		"an address with a zone":    server("'https://[2001:db8::1%25eth0]'"),
		"a bad IPv6 address":        server("'https://[::1'"),
		"a URL that is too long":    reject(withServer(tb, "https://a/"+strings.Repeat("x", 2048)), kubeconfig.ReasonTooLarge, inServer),
		"a host that is too long":   server("https://" + strings.Repeat("x", 254)),
		"http in another cluster":   reject(edit(tb, "users:\n", "- {name: b, cluster: {server: 'http://a'}}\nusers:\n"), scheme, "clusters[1].cluster.server"),
		"CA as a file":              reject(withCluster(tb, "certificate-authority: /etc/ca.pem"), kubeconfig.ReasonFilePathNotAllowed, "clusters[0].cluster.certificate-authority"),
		"unverified TLS":            reject(withCluster(tb, "insecure-skip-tls-verify: true"), kubeconfig.ReasonInsecureTLSNotAllowed, "clusters[0].cluster.insecure-skip-tls-verify"),
		"unverified TLS, not used":  reject(edit(tb, "users:\n", "- {name: b, cluster: {server: 'https://a', insecure-skip-tls-verify: true}}\nusers:\n"), kubeconfig.ReasonInsecureTLSNotAllowed, "clusters[1].cluster.insecure-skip-tls-verify"),
		"a proxy":                   reject(withCluster(tb, "proxy-url: http://proxy.example.com"), kubeconfig.ReasonProxyNotAllowed, "clusters[0].cluster.proxy-url"),
		"a bad tls-server-name":     invalid(withCluster(tb, "tls-server-name: 'a b'"), "clusters[0].cluster.tls-server-name"),
		"CA is not PEM":             ca([]byte(canaryPassword)),
		"CA is not X.509":           ca(inPEM("CERTIFICATE", []byte(canaryPassword))),
		"CA is a key":               ca(p.client.key),
		"CA is cut off":             ca(p.ca.cert[:len(p.ca.cert)-40]),
		"CA is followed by a stump": ca(append(p.ca.cert[:len(p.ca.cert):len(p.ca.cert)], "-----BEGIN CERTIFICATE-----\n"...)),
		"CA is base64 twice":        ca([]byte(b64(p.ca.cert))),
		"CA has PEM headers":        ca(bytes.Replace(p.ca.cert, []byte("-----\n"), []byte("-----\nA: "+canaryPassword+"\n\n"), 1)),
		"33 CA certificates":        reject(edit(tb, b64(p.ca.cert), b64(bytes.Repeat(p.ca.cert, 33))), kubeconfig.ReasonTooLarge, inCA),
		"loopback":                  denied("https://127.0.0.1:6443"),
		"all of loopback":           denied("https://127.8.9.10"),
		"IPv6 loopback":             denied("'https://[::1]:6443'"),
		"unspecified":               denied("https://0.0.0.0"),
		"IPv6 unspecified":          denied("'https://[::]'"),
		"metadata":                  denied("https://169.254.169.254/latest"),
		"IPv6 metadata":             denied("'https://[fd00:ec2::254]'"),
		"link-local":                denied("https://169.254.1.1"),
		"IPv6 link-local":           denied("'https://[fe80::1]'"),
		"multicast":                 denied("https://224.0.0.1"),
		"IPv6 multicast":            denied("'https://[ff02::1]'"),
		"broadcast":                 denied("https://255.255.255.255"),
		"mapped loopback":           denied("'https://[::ffff:127.0.0.1]'"),
		"mapped in hexadecimals":    denied("'https://[::ffff:7f00:1]'"),
		"NAT64 metadata":            denied("'https://[64:ff9b::a9fe:a9fe]'"),
		"6to4 loopback":             denied("'https://[2002:7f00:1::]'"),
	}
	withPolicy := func(name string, r rejection, p kubeconfig.Policy) {
		r.policy = p
		cases[name] = r
	}
	proxies, deny := kubeconfig.Policy{AllowProxyURL: true}, kubeconfig.Policy{DenyCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	inProxy := "clusters[0].cluster.proxy-url"
	withPolicy("an https proxy", invalid(withCluster(tb, "proxy-url: https://proxy.example.com"), inProxy), proxies)
	withPolicy("a proxy without scheme", invalid(withCluster(tb, "proxy-url: proxy.example.com"), inProxy), proxies)
	withPolicy("a proxy with a password", invalid(withCluster(tb, "proxy-url: http://u:"+canaryPassword+"@proxy.example.com"), inProxy), proxies)
	withPolicy("a proxy with a path", invalid(withCluster(tb, "proxy-url: http://proxy.example.com/a"), inProxy), proxies)
	withPolicy("a proxy on loopback", reject(withCluster(tb, "proxy-url: http://127.0.0.1:3128"), address, inProxy), proxies)
	withPolicy("an address that the operator denies", denied("https://10.1.2.3"), deny)
	withPolicy("unverified TLS and a CA", invalid(withCluster(tb, "insecure-skip-tls-verify: true"), "clusters[0].cluster.insecure-skip-tls-verify"),
		kubeconfig.Policy{AllowInsecureTLS: true})
	return cases
}

func contextRejections(tb testing.TB) map[string]rejection {
	tb.Helper()
	named := func(name, field string) rejection {
		r := invalid(baseConfig(tb), field)
		r.options.Context, r.key = name, "-"
		return r
	}
	return map[string]rejection{
		"no current-context":         invalid(edit(tb, "current-context: main\n", ""), "current-context"),
		"an empty current-context":   invalid(edit(tb, "current-context: main", "current-context: ''"), "current-context"),
		"an unknown current-context": invalid(edit(tb, "current-context: main", "current-context: "+canaryPassword), "current-context"),
		"an unknown context by name": named("nowhere", "spec.kubeconfigSecretRef.context"),
		"a context of no cluster":    invalid(edit(tb, "cluster: remote, user", "cluster: nothing, user"), "contexts[0].context.cluster"),
		"a context of no user":       invalid(edit(tb, "user: admin", "user: "+canaryPassword), "contexts[0].context.user"),
		"an empty context":           invalid(edit(tb, "context: {cluster: remote, user: admin, namespace: default}", "context: {}"), "contexts[0].context.cluster"),
		"two clusters of one name":   invalid(edit(tb, "users:\n", "- {name: remote, cluster: {server: 'https://a'}}\nusers:\n"), "clusters[1].name"),
		"two users of one name":      invalid(edit(tb, "contexts:\n", "- {name: admin, user: {token: a}}\ncontexts:\n"), "users[1].name"),
		"two contexts of one name":   invalid(baseConfig(tb)+"- {name: main, context: {cluster: a, user: b}}\n", "contexts[1].name"),
		"a cluster without a name":   invalid(edit(tb, "name: remote", "name: ''"), "clusters[0].name"),
		"a user without a name":      invalid(edit(tb, "name: admin", "name: ''"), "users[0].name"),
		"a context without a name":   invalid(edit(tb, "name: main", "name: ''"), "contexts[0].name"),
	}
}

func formRejections(tb testing.TB) map[string]rejection {
	tb.Helper()
	p := shared(tb)
	server := []byte("https://api.example.com:6443")
	broken := kubeconfig.ReasonInvalidKubeconfig
	argoCD := func(config string, reason kubeconfig.Reason, field string) rejection {
		return rejection{data: map[string][]byte{"server": server, "config": []byte(config)}, reason: reason, key: "config", field: field}
	}
	token := func(key string, reason kubeconfig.Reason, data map[string][]byte) rejection {
		for name, value := range map[string][]byte{"token": []byte(canaryToken), "server": server} {
			if _, set := data[name]; !set {
				data[name] = value
			}
		}
		return rejection{data: data, reason: reason, key: key}
	}
	override := func(reason kubeconfig.Reason, field string, o kubeconfig.Options) rejection {
		r := reject(baseConfig(tb), reason, field)
		r.options, r.key = o, "-"
		return r
	}
	type data = map[string][]byte
	type options = kubeconfig.Options
	return map[string]rejection{
		"no data":                           {reason: kubeconfig.ReasonKeyNotFound, key: "-"},
		"no known key":                      {data: data{"password": []byte(canaryPassword)}, reason: kubeconfig.ReasonKeyNotFound, key: "-"},
		"the named key is not there":        {data: asKubeconfig(baseConfig(tb)), options: options{Key: "other"}, reason: kubeconfig.ReasonKeyNotFound, key: "-", field: "spec.kubeconfigSecretRef.key"},
		"a token without a server":          {data: data{"token": []byte(canaryToken)}, reason: kubeconfig.ReasonKeyNotFound, key: "server"},
		"value is not a kubeconfig":         {data: data{"value": []byte("x")}, reason: broken, key: "value"},
		"value.yaml is empty":               {data: data{"value.yaml": nil}, reason: broken, key: "value.yaml"},
		"config is not a kubeconfig":        {data: data{"config": []byte(`{"bearerToken":"` + canaryToken + `"}`)}, reason: broken, key: "config", field: "bearerToken"},
		"kubeconfig is empty, value is not": {data: data{"kubeconfig": {}, "value": []byte(baseConfig(tb))}, reason: broken},
		"Argo CD exec":                      argoCD(`{"execProviderConfig":{"command":"`+canaryPassword+`"}}`, kubeconfig.ReasonExecNotAllowed, "execProviderConfig"),
		"Argo CD AWS":                       argoCD(`{"awsAuthConfig":{"clusterName":"x"}}`, kubeconfig.ReasonAuthProviderNotAllowed, "awsAuthConfig"),
		"Argo CD username":                  argoCD(`{"username":"`+canaryPassword+`"}`, kubeconfig.ReasonBasicAuthNotAllowed, "username"),
		"Argo CD password":                  argoCD(`{"bearerToken":"x","password":"`+canaryPassword+`"}`, kubeconfig.ReasonBasicAuthNotAllowed, "password"),
		"Argo CD insecure":                  argoCD(`{"bearerToken":"x","tlsClientConfig":{"insecure":true}}`, kubeconfig.ReasonInsecureTLSNotAllowed, "tlsClientConfig.insecure"),
		"Argo CD proxy":                     argoCD(`{"bearerToken":"x","proxyUrl":"http://a"}`, kubeconfig.ReasonProxyNotAllowed, "proxyUrl"),
		"Argo CD server name":               argoCD(`{"bearerToken":"x","tlsClientConfig":{"serverName":"a b"}}`, broken, "tlsClientConfig.serverName"),
		"Argo CD CA":                        argoCD(`{"bearerToken":"x","tlsClientConfig":{"caData":"eA=="}}`, broken, "tlsClientConfig.caData"),
		"Argo CD CA not in base64":          argoCD(`{"tlsClientConfig":{"caData":"`+canaryPassword+`!"}}`, broken, "tlsClientConfig.caData"),
		"Argo CD key without cert":          argoCD(`{"tlsClientConfig":{"keyData":"`+b64(p.client.key)+`"}}`, broken, "tlsClientConfig.certData"),
		"Argo CD cert of another key":       argoCD(`{"tlsClientConfig":{"certData":"`+b64(p.client.cert)+`","keyData":"`+b64(p.second.key)+`"}}`, broken, "tlsClientConfig.keyData"),
		"Argo CD unknown field":             argoCD(`{"bearerTokne":"`+canaryToken+`"}`, broken, "bearerTokne"),
		"Argo CD field twice":               argoCD(`{"bearerToken":"a","bearerToken":"`+canaryToken+`"}`, broken, "bearerToken"),
		"Argo CD wrong type":                argoCD(`{"bearerToken":12345678}`, broken, "bearerToken"),
		"Argo CD no credential":             argoCD(`{}`, broken, ""),
		"Argo CD null":                      argoCD(`null`, broken, ""),
		"Argo CD empty":                     argoCD(``, broken, ""),
		"Argo CD not JSON":                  argoCD(`bearerToken: `+canaryToken, broken, ""),
		"Argo CD trailing data":             argoCD(`{"bearerToken":"a"}{"bearerToken":"`+canaryToken+`"}`, broken, ""),
		"Argo CD both credentials":          argoCD(`{"bearerToken":"a","tlsClientConfig":{"certData":"eA==","keyData":"eA=="}}`, broken, ""),
		"Argo CD token and a break":         argoCD(`{"bearerToken":"`+canaryToken+`\r\n"}`, broken, "bearerToken"),
		"Argo CD expired":                   argoCD(`{"bearerToken":"`+jwt(`{"exp":5}`)+`"}`, kubeconfig.ReasonExpired, ""),
		"Argo CD too large": {
			data: data{"server": server, "config": bytes.Repeat([]byte("x"), 65536)}, reason: kubeconfig.ReasonTooLarge, key: "server",
		},
		"Argo CD with http": {
			data: data{"server": []byte("http://a"), "config": []byte(`{"bearerToken":"a"}`)}, reason: kubeconfig.ReasonSchemeNotAllowed, key: "server",
		},
		"Argo CD with a context": {
			data: data{"server": server, "config": []byte(`{"bearerToken":"a"}`)}, options: options{Context: "x"}, reason: broken, key: "-", field: "spec.kubeconfigSecretRef.context",
		},
		"an empty token key":                    token("token", broken, data{"token": []byte("\n")}),
		"a token key of two lines":              token("token", broken, data{"token": []byte(canaryToken + "\n" + canaryToken)}),
		"a token key that is a JWT and expired": token("token", kubeconfig.ReasonExpired, data{"token": []byte(jwt(`{"exp":1}`))}),
		"a token key that is too large":         token("token", kubeconfig.ReasonTooLarge, data{"token": bytes.Repeat([]byte("x"), 65537)}),
		"an empty server key":                   token("server", broken, data{"server": {}}),
		"a server key with http":                token("server", kubeconfig.ReasonSchemeNotAllowed, data{"server": []byte("http://a")}),
		"a server key with userinfo":            token("server", broken, data{"server": []byte("https://" + canaryPassword + "@a")}),
		"a server key on loopback":              token("server", kubeconfig.ReasonAddressNotAllowed, data{"server": []byte("https://127.0.0.1")}),
		"an empty ca.crt":                       token("ca.crt", broken, data{"ca.crt": {}}),
		"a bad ca.crt":                          token("ca.crt", broken, data{"ca.crt": []byte("x")}),
		"a bad caBundle":                        token("caBundle", broken, data{"caBundle": []byte(canaryPassword)}),
		"a bad ca.crt beside a caBundle":        token("ca.crt", broken, data{"ca.crt": []byte("x"), "caBundle": p.ca.cert}),
		"spec.server with http":                 override(kubeconfig.ReasonSchemeNotAllowed, "spec.server", options{Server: "http://a"}),
		"spec.server with userinfo":             override(broken, "spec.server", options{Server: "https://a:" + canaryPassword + "@b"}),
		"spec.server on loopback":               override(kubeconfig.ReasonAddressNotAllowed, "spec.server", options{Server: "https://127.0.0.1"}),
		"spec.server on metadata":               override(kubeconfig.ReasonAddressNotAllowed, "spec.server", options{Server: "https://169.254.169.254"}),
		"spec.tlsServerName":                    override(broken, "spec.tlsServerName", options{TLSServerName: "a/b"}),
		"spec.proxyURL":                         override(kubeconfig.ReasonProxyNotAllowed, "spec.proxyURL", options{ProxyURL: "http://a"}),
	}
}

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
		t.Errorf("%d cases, want 100 or more", total)
	}
}

// check parses twice, so that a reason that depends on the order of a map would show.
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
		t.Fatalf("error %v, want an *Error", err)
	}
	if got.Reason != c.reason || got.Key != c.key || got.Field != c.field {
		t.Errorf("reason %s, key %q, field %q; want %s, %q, %q\n%v", got.Reason, got.Key, got.Field, c.reason, c.key, c.field, err)
	}
	if fmt.Sprint(err) != fmt.Sprint(again) {
		t.Errorf("two errors for one input:\n%v\n%v", err, again)
	}
	checkText(t, err.Error())
	p := shared(t)
	secrets := []string{
		canaryToken, canaryPassword, b64([]byte(canaryToken)), b64([]byte(canaryPassword)),
		keyText(p.client.key), keyText(p.second.key), keyText(p.expired.key),
	}
	for _, text := range []string{err.Error(), fmt.Sprintf("%v %+v %#v", got, *got, got)} {
		if part := leaked(text, secrets...); part != "" {
			t.Errorf("%q of a secret shows in %q", part, text)
		}
	}
}

// checkText checks what every message promises.
func checkText(t *testing.T, text string) {
	t.Helper()
	if text == "" || len(text) > 512 {
		t.Errorf("a message of %d bytes", len(text))
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }); i >= 0 {
		t.Errorf("byte %d of %q is not printable", i, text)
	}
	if !strings.Contains(text, "; ") {
		t.Errorf("%q does not say what to do", text)
	}
}

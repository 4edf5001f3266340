// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

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

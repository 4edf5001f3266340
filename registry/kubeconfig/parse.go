// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"strings"
	"time"
)

// Options select what to read, and override values, from the Cluster. The zero value reads the first known key, and its
// current context.
type Options struct {
	// Key to read. Empty means the first of kubeconfig, value, value.yaml, config and token.
	Key string
	// Context of the kubeconfig. Empty means the current one.
	Context string
	// These replace values of the data. Empty keeps the value.
	Server, TLSServerName, ProxyURL string
	// Tunnel becomes that of the Endpoint, which then has no proxy.
	Tunnel string
	// Now judges expiry. Nil means time.Now.
	Now func() time.Time
}

// Real kubeconfigs are below a tenth of each limit.
const (
	maxData    = 64 << 10 // bytes
	maxEntries = 8        // clusters, users, contexts
	maxDepth   = 16       // levels of nesting
	maxValues  = 4 << 10  // lines and values of YAML
)

// As the tools that write such Secrets name them.
const (
	keyKubeconfig = "kubeconfig" // multicluster-runtime, and ours
	keyValue      = "value"      // Cluster API, Flux
	keyValueYAML  = "value.yaml" // Flux
	keyConfig     = "config"     // Argo CD with keyServer, otherwise vcluster
	keyToken      = "token"      // ServiceAccount token
	keyServer     = "server"     // Argo CD, ServiceAccount token
	keyCA         = "ca.crt"     // ServiceAccount token
	keyCABundle   = "caBundle"   // Karmada
)

// Fields of the Cluster that Options come from.
const (
	fieldKey           = "spec.kubeconfigSecretRef.key"
	fieldContext       = "spec.kubeconfigSecretRef.context"
	fieldServer        = "spec.server"
	fieldTLSServerName = "spec.tlsServerName"
	fieldProxyURL      = "spec.proxyURL"
)

// Parse returns a Connection for the data of a Secret. It judges the whole input, also unused entries, opens no file,
// runs no command and contacts no server. It refuses data with an *Error, always with the same Reason, and keeps no
// reference to the data.
func Parse(data map[string][]byte, o Options, p Policy) (Connection, error) {
	key, err := chooseKey(data, o)
	if err != nil {
		return Connection{}, err
	}
	d := draft{data: data, options: o, policy: p}
	if err := d.read(key); err != nil {
		return Connection{}, err
	}
	return d.finish()
}

func (d *draft) read(key string) error {
	_, hasServer := d.data[keyServer]
	isArgo := key == keyConfig && hasServer
	if key != keyToken && !isArgo {
		return d.readKubeconfig(place{key: key})
	}
	if d.options.Context != "" {
		return place{field: fieldContext}.invalid("names a context, and only a kubeconfig has contexts; remove it, or name the key of a kubeconfig")
	}
	if isArgo {
		return d.readArgoCD()
	}
	return d.readToken()
}

func chooseKey(data map[string][]byte, o Options) (string, error) {
	if o.Key != "" {
		if _, found := data[o.Key]; !found {
			return "", place{field: fieldKey}.refuse(ReasonKeyNotFound,
				"the Secret has no such key; name an existing key, or leave this out to try the known keys")
		}
		return o.Key, nil
	}
	for _, key := range []string{keyKubeconfig, keyValue, keyValueYAML, keyConfig} {
		if _, found := data[key]; found {
			return key, nil
		}
	}
	_, hasToken := data[keyToken]
	_, hasServer := data[keyServer]
	if hasToken && (hasServer || o.Server != "") {
		return keyToken, nil
	}
	if hasToken {
		return "", place{key: keyServer}.refuse(ReasonKeyNotFound,
			"the Secret has a token but no server to use it with; add the key server, or set spec.server in the Cluster")
	}
	return "", place{}.refuse(ReasonKeyNotFound,
		"the Secret has none of the keys kubeconfig, value, value.yaml, config or token; add one, or name another in "+fieldKey)
}

type draft struct {
	data    map[string][]byte
	options Options
	policy  Policy

	endpoint   Endpoint
	from       source
	credential Credential
	inUser     place
}

// take fails if the values are too large together.
func (d *draft) take(keys ...string) (map[string][]byte, error) {
	values := make(map[string][]byte, len(keys))
	total := 0
	for _, key := range keys {
		values[key] = d.data[key]
		if total += len(d.data[key]); total > maxData {
			return nil, place{key: key}.refuse(ReasonTooLarge,
				"is larger than 64 KiB, alone or with the keys that belong to it; keep only the cluster, the user and the context that are needed")
		}
	}
	return values, nil
}

func (d *draft) readToken() error {
	ca := keyCA
	if _, found := d.data[keyCA]; !found {
		ca = keyCABundle
	}
	values, err := d.take(keyToken, keyServer, ca)
	if err != nil {
		return err
	}
	inToken := place{key: keyToken}
	d.inUser = inToken
	// Keys that were made from files often end in a line break.
	token := strings.TrimSpace(string(values[keyToken]))
	if token == "" {
		return inToken.invalid("is empty; put a bearer token here")
	}
	if d.credential, err = tokenCredential(token, inToken); err != nil {
		return err
	}
	d.endpoint = Endpoint{Server: strings.TrimSpace(string(values[keyServer])), CAData: values[ca]}
	d.from = source{server: place{key: keyServer}, ca: place{key: ca}}
	if _, found := d.data[ca]; found && len(values[ca]) == 0 {
		return d.from.ca.invalid("is empty; put the certificate of the server's CA here, or remove the key to use the CAs of the system")
	}
	if d.endpoint.Server == "" && d.options.Server != "" {
		return nil
	}
	_, err = d.endpoint.resolve(d.from, d.policy)
	return err
}

func (d *draft) finish() (Connection, error) {
	d.override()
	w, err := d.endpoint.resolve(d.from, d.policy)
	if err != nil {
		return Connection{}, err
	}
	if d.endpoint.Tunnel != "" && d.endpoint.ProxyURL != "" {
		return Connection{}, d.from.proxy.invalid("there is a proxy, and the hub reaches the server through a tunnel; remove the proxy")
	}
	if err := w.checkAddresses(d.from); err != nil {
		return Connection{}, err
	}
	now := time.Now
	if d.options.Now != nil {
		now = d.options.Now
	}
	if err := d.credential.check(d.inUser, now()); err != nil {
		return Connection{}, err
	}
	return Connection{Endpoint: d.endpoint, Credential: d.credential}, nil
}

func (d *draft) override() {
	o := d.options
	d.endpoint.Tunnel = o.Tunnel
	if o.Server != "" {
		d.endpoint.Server, d.from.server = o.Server, place{field: fieldServer}
	}
	if o.TLSServerName != "" {
		d.endpoint.TLSServerName, d.from.serverName = o.TLSServerName, place{field: fieldTLSServerName}
	}
	if o.ProxyURL != "" {
		d.endpoint.ProxyURL, d.from.proxy = o.ProxyURL, place{field: fieldProxyURL}
	}
}

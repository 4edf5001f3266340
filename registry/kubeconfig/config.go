// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"strconv"

	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

func (d *draft) readKubeconfig(at place) error {
	values, err := d.take(at.key)
	if err != nil {
		return err
	}
	var config clientcmdv1.Config
	if err := decodeYAML(values[at.key], at, &config); err != nil {
		return err
	}
	if err := checkHeader(&config, at); err != nil {
		return err
	}
	endpoints, err := d.readClusters(config.Clusters, at)
	if err != nil {
		return err
	}
	credentials, err := readUsers(config.AuthInfos, at)
	if err != nil {
		return err
	}
	context, err := d.choose(&config, at)
	if err != nil {
		return err
	}
	endpoint, found := endpoints[context.Cluster]
	if !found {
		return context.place.at("cluster").invalid("names a cluster that the kubeconfig does not have; correct the name or add the cluster")
	}
	user, found := credentials[context.AuthInfo]
	if !found {
		return context.place.at("user").invalid("names a user that the kubeconfig does not have; correct the name or add the user")
	}
	d.endpoint, d.from = endpoint.Endpoint, endpoint.source
	d.credential, d.inUser = user.Credential, user.place
	return nil
}

func checkHeader(config *clientcmdv1.Config, at place) error {
	if config.Kind != "" && config.Kind != "Config" {
		return at.at("kind").invalid("is not Config; put a kubeconfig here")
	}
	if config.APIVersion != "" && config.APIVersion != "v1" {
		return at.at("apiVersion").invalid("is not v1, the only version of kubeconfigs; put a kubeconfig here")
	}
	for _, list := range []struct {
		name string
		len  int
	}{
		{"clusters", len(config.Clusters)},
		{"users", len(config.AuthInfos)},
		{"contexts", len(config.Contexts)},
		{"extensions", len(config.Extensions)},
	} {
		if list.len > maxEntries {
			return at.at(list.name).refuse(ReasonTooLarge,
				"has more than 8 entries; keep only the entry that is needed, for example with kubectl config view --raw --minify")
		}
	}
	return nil
}

type placedEndpoint struct {
	Endpoint
	source
}

func (d *draft) readClusters(clusters []clientcmdv1.NamedCluster, at place) (map[string]placedEndpoint, error) {
	endpoints := make(map[string]placedEndpoint, len(clusters))
	for i, entry := range clusters {
		in := at.at("clusters[" + strconv.Itoa(i) + "]")
		if err := checkName(entry.Name, endpoints, in); err != nil {
			return nil, err
		}
		endpoint, err := d.readCluster(entry.Cluster, in.at("cluster"))
		if err != nil {
			return nil, err
		}
		endpoints[entry.Name] = endpoint
	}
	return endpoints, nil
}

func (d *draft) readCluster(c clientcmdv1.Cluster, at place) (placedEndpoint, error) {
	if c.CertificateAuthority != "" {
		return placedEndpoint{}, at.at("certificate-authority").refuse(ReasonFilePathNotAllowed,
			"names a file, which the hub does not open; "+
				"put the content into certificate-authority-data, as kubectl config view --raw --flatten does")
	}
	e := placedEndpoint{
		Endpoint: Endpoint{
			Server: c.Server, TLSServerName: c.TLSServerName, ProxyURL: c.ProxyURL,
			CAData: c.CertificateAuthorityData, Insecure: c.InsecureSkipTLSVerify,
		},
		source: source{
			server: at.at("server"), serverName: at.at("tls-server-name"), proxy: at.at("proxy-url"),
			ca: at.at("certificate-authority-data"), insecure: at.at("insecure-skip-tls-verify"),
		},
	}
	_, err := e.resolve(e.source, d.policy)
	return e, err
}

type placedCredential struct {
	Credential
	place
}

func readUsers(users []clientcmdv1.NamedAuthInfo, at place) (map[string]placedCredential, error) {
	credentials := make(map[string]placedCredential, len(users))
	for i, entry := range users {
		in := at.at("users[" + strconv.Itoa(i) + "]")
		if err := checkName(entry.Name, credentials, in); err != nil {
			return nil, err
		}
		in = in.at("user")
		if err := checkUser(&entry.AuthInfo, in); err != nil {
			return nil, err
		}
		credential, err := identity{
			token: entry.AuthInfo.Token, chain: entry.AuthInfo.ClientCertificateData, key: entry.AuthInfo.ClientKeyData,
			inUser: in, inToken: in.at("token"), inChain: in.at("client-certificate-data"), inKey: in.at("client-key-data"),
		}.credential()
		if err != nil {
			return nil, err
		}
		credentials[entry.Name] = placedCredential{credential, in}
	}
	return credentials, nil
}

// checkUser refuses authentication that acts on the hub or hides who acts.
func checkUser(u *clientcmdv1.AuthInfo, at place) error {
	const (
		exec     = "runs a command, which the hub does not allow; use a token or a client certificate, for example of a ServiceAccount"
		provider = "uses an authentication plugin, which the hub does not have; use a token or a client certificate, for example of a ServiceAccount"
		file     = "names a file, which the hub does not open; put the content into the kubeconfig, as kubectl config view --raw --flatten does"
		as       = "impersonates another user; use the credentials of that user or ServiceAccount itself"
		basic    = "is for basic authentication, which API servers no longer have; use a token or a client certificate"
	)
	for _, rule := range []struct {
		broken bool
		reason Reason
		field  string
		text   string
	}{
		{u.Exec != nil, ReasonExecNotAllowed, "exec", exec},
		{u.AuthProvider != nil, ReasonAuthProviderNotAllowed, "auth-provider", provider},
		{u.TokenFile != "", ReasonFilePathNotAllowed, "tokenFile", file},
		{u.ClientCertificate != "", ReasonFilePathNotAllowed, "client-certificate", file},
		{u.ClientKey != "", ReasonFilePathNotAllowed, "client-key", file},
		{u.Impersonate != "", ReasonImpersonationNotAllowed, "as", as},
		{u.ImpersonateUID != "", ReasonImpersonationNotAllowed, "as-uid", as},
		{len(u.ImpersonateGroups) > 0, ReasonImpersonationNotAllowed, "as-groups", as},
		{len(u.ImpersonateUserExtra) > 0, ReasonImpersonationNotAllowed, "as-user-extra", as},
		{u.Username != "", ReasonBasicAuthNotAllowed, "username", basic},
		{u.Password != "", ReasonBasicAuthNotAllowed, "password", basic},
	} {
		if rule.broken {
			return at.at(rule.field).refuse(rule.reason, rule.text)
		}
	}
	return nil
}

// checkName refuses entries that cannot be referred to.
func checkName[T any](name string, taken map[string]T, at place) error {
	if name == "" {
		return at.at("name").invalid("is empty; give the entry a name")
	}
	if _, found := taken[name]; found {
		return at.at("name").invalid("is the name of an earlier entry too; remove one of the two")
	}
	return nil
}

type placedContext struct {
	clientcmdv1.Context
	place
}

func (d *draft) choose(config *clientcmdv1.Config, at place) (placedContext, error) {
	name, inName := config.CurrentContext, at.at("current-context")
	if d.options.Context != "" {
		name, inName = d.options.Context, place{field: fieldContext}
	}
	contexts := make(map[string]placedContext, len(config.Contexts))
	for i, entry := range config.Contexts {
		in := at.at("contexts[" + strconv.Itoa(i) + "]")
		if err := checkName(entry.Name, contexts, in); err != nil {
			return placedContext{}, err
		}
		contexts[entry.Name] = placedContext{entry.Context, in.at("context")}
	}
	if name == "" {
		return placedContext{}, inName.invalid("is not set; set it, or name a context in " + fieldContext)
	}
	context, found := contexts[name]
	if !found {
		return placedContext{}, inName.invalid("names a context that the kubeconfig does not have; correct the name or add the context")
	}
	return context, nil
}

// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"encoding/json"
	"strings"
)

// argoConfig is the value of the key config in a cluster Secret of Argo CD, with its names.
type argoConfig struct {
	Username           string          `json:"username"`
	Password           string          `json:"password"`
	BearerToken        string          `json:"bearerToken"`
	TLSClientConfig    argoTLS         `json:"tlsClientConfig"`
	AWSAuthConfig      json.RawMessage `json:"awsAuthConfig"`
	ExecProviderConfig json.RawMessage `json:"execProviderConfig"`
	DisableCompression bool            `json:"disableCompression"`
	ProxyURL           string          `json:"proxyUrl"`
}

type argoTLS struct {
	Insecure   bool   `json:"insecure"`
	ServerName string `json:"serverName"`
	CertData   []byte `json:"certData"`
	KeyData    []byte `json:"keyData"`
	CAData     []byte `json:"caData"`
}

func (d *draft) readArgoCD() error {
	values, err := d.take(keyConfig, keyServer)
	if err != nil {
		return err
	}
	at := place{key: keyConfig}
	var config argoConfig
	if err := decodeJSON(values[keyConfig], at, &config); err != nil {
		return err
	}
	if err := config.check(at); err != nil {
		return err
	}
	tls, inTLS := config.TLSClientConfig, at.at("tlsClientConfig")
	d.inUser = at
	d.credential, err = identity{
		token: config.BearerToken, chain: tls.CertData, key: tls.KeyData,
		inUser: at, inToken: at.at("bearerToken"), inChain: inTLS.at("certData"), inKey: inTLS.at("keyData"),
	}.credential()
	if err != nil {
		return err
	}
	d.endpoint = Endpoint{
		Server: strings.TrimSpace(string(values[keyServer])), TLSServerName: tls.ServerName,
		ProxyURL: config.ProxyURL, CAData: tls.CAData, Insecure: tls.Insecure,
	}
	d.from = source{
		server: place{key: keyServer}, serverName: inTLS.at("serverName"), proxy: at.at("proxyUrl"),
		ca: inTLS.at("caData"), insecure: inTLS.at("insecure"),
	}
	_, err = d.endpoint.resolve(d.from, d.policy)
	return err
}

// check refuses authentication that acts on the hub.
func (c *argoConfig) check(at place) error {
	switch {
	case isSet(c.ExecProviderConfig):
		return at.at("execProviderConfig").refuse(ReasonExecNotAllowed,
			"runs a command, which the hub does not allow; use bearerToken or a client certificate")
	case isSet(c.AWSAuthConfig):
		return at.at("awsAuthConfig").refuse(ReasonAuthProviderNotAllowed,
			"uses an authentication plugin, which the hub does not have; use bearerToken or a client certificate")
	case c.Username != "":
		return at.at("username").refuse(ReasonBasicAuthNotAllowed,
			"is for basic authentication, which API servers no longer have; use bearerToken or a client certificate")
	case c.Password != "":
		return at.at("password").refuse(ReasonBasicAuthNotAllowed,
			"is for basic authentication, which API servers no longer have; use bearerToken or a client certificate")
	}
	return nil
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

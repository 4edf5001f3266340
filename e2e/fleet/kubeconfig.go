// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Either cert and key are set, or token.
type access struct {
	cluster, user string
	server        string
	ca            []byte
	cert, key     []byte
	token         string
}

func (a access) config() *rest.Config {
	return &rest.Config{
		Host:            a.server,
		BearerToken:     a.token,
		TLSClientConfig: rest.TLSClientConfig{CAData: a.ca, CertData: a.cert, KeyData: a.key},
		QPS:             -1,
	}
}

// Writing can only fail for types that are not registered, which these are.
func (a access) kubeconfig() []byte {
	c := clientcmdapi.NewConfig()
	c.Clusters[a.cluster] = &clientcmdapi.Cluster{Server: a.server, CertificateAuthorityData: a.ca}
	c.AuthInfos[a.user] = &clientcmdapi.AuthInfo{
		ClientCertificateData: a.cert, ClientKeyData: a.key, Token: a.token,
	}
	c.Contexts[a.cluster] = &clientcmdapi.Context{Cluster: a.cluster, AuthInfo: a.user}
	c.CurrentContext = a.cluster
	data, err := clientcmd.Write(*c)
	if err != nil {
		panic(fmt.Sprintf("encode a kubeconfig: %v", err))
	}
	return data
}

// At returns a kubeconfig for the same port of another of Options.Addresses. Hundreds of addresses of one API server
// can stand for as many clusters.
func At(kubeconfig []byte, addr netip.Addr) ([]byte, error) {
	c, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	for name, cluster := range c.Clusters {
		server, err := url.Parse(cluster.Server)
		if err != nil {
			return nil, fmt.Errorf("read the server of cluster %s: %w", name, err)
		}
		server.Host = net.JoinHostPort(addr.String(), server.Port())
		cluster.Server = server.String()
	}
	return clientcmd.Write(*c)
}

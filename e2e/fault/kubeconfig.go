// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"net"
	"net/url"

	"k8s.io/client-go/tools/clientcmd"
)

// Kubeconfig returns a copy of a kubeconfig whose clusters are reached through the proxy. Certificates are verified as
// before: the copy names their host if it is not the proxy's address.
func (p *Proxy) Kubeconfig(kubeconfig []byte) ([]byte, error) {
	c, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	host, _, err := net.SplitHostPort(p.addr)
	if err != nil {
		return nil, err
	}
	for name, cluster := range c.Clusters {
		server, err := url.Parse(cluster.Server)
		if err != nil {
			return nil, fmt.Errorf("read the server of cluster %s: %w", name, err)
		}
		if cluster.TLSServerName == "" && server.Hostname() != host {
			cluster.TLSServerName = server.Hostname()
		}
		server.Host = p.addr
		cluster.Server = server.String()
	}
	return clientcmd.Write(*c)
}

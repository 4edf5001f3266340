// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// writeKubeconfig writes one kubeconfig with a context by the name of each cluster; the hub's is the current one. Other
// commands have a copy.
func (d *demo) writeKubeconfig(context.Context) error {
	all := clientcmdapi.NewConfig()
	for _, c := range d.fleet.Clusters() {
		if err := addContext(all, c); err != nil {
			return fmt.Errorf("write the kubeconfig: %w", err)
		}
	}
	all.CurrentContext = hubName
	if err := access.WritePolicy(all.Clusters[hubName], d.prepared.Policy); err != nil {
		return err
	}
	if d.nats {
		if err := access.WriteNATS(all.Clusters[hubName], d.natsURL); err != nil {
			return err
		}
	}
	text, err := clientcmd.Write(*all)
	if err == nil {
		err = d.folder.writeNew(kubeconfigFile, text)
	}
	if err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	if d.folder.record, err = access.PublishDev(d.folder.dir, text); err != nil {
		d.progress.step("the other commands need --kubeconfig to find this dev: %v", err)
	}
	return nil
}

func addContext(all *clientcmdapi.Config, c *fleet.Cluster) error {
	one, err := clientcmd.Load(c.Kubeconfig())
	if err != nil {
		return err
	}
	current, ok := one.Contexts[one.CurrentContext]
	if !ok {
		return fmt.Errorf("the kubeconfig of %s has no current context", c.Name())
	}
	name := c.Name()
	all.Clusters[name] = one.Clusters[current.Cluster]
	all.AuthInfos[name] = one.AuthInfos[current.AuthInfo]
	all.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	return nil
}

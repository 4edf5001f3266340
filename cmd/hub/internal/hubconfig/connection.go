// SPDX-License-Identifier: Apache-2.0

package hubconfig

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
)

type connection struct {
	kubeconfig, context string
}

func (c *connection) bind(fs *pflag.FlagSet) {
	fs.StringVar(&c.kubeconfig, "kubeconfig", "", "Path of a kubeconfig for the hub's cluster. "+
		"Default: $KUBECONFIG, else the service account if the hub runs in a Pod, else ~/.kube/config")
	fs.StringVar(&c.context, "context", "", "Context of the kubeconfig to use. Default: its current context")
}

// load follows controller-runtime's rules: the flag, the environment, the service account, the home directory. Its own
// code keeps the flag in a global variable. The rate is not limited here: the API server does it better.
func (c *connection) load() (*rest.Config, error) {
	config, err := c.find()
	if err != nil {
		return nil, fmt.Errorf("find the hub's cluster: %w; say which it is with --kubeconfig and --context, %s", access.Brief(err), project.Dev)
	}
	if config.QPS == 0 {
		config.QPS = -1
	}
	return config, nil
}

func (c *connection) find() (*rest.Config, error) {
	if c.kubeconfig == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if config, err := rest.InClusterConfig(); err == nil {
			return config, nil
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.context}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
}

// inPod: there may be other replicas.
func inPod() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

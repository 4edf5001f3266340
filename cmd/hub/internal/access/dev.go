// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/devdir"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// policyExtension is the name of the extension of a cluster in a kubeconfig that holds the policy of the hub in it.
const policyExtension = "clusterfx.dev/hub-policy"

// WritePolicy writes into the entry of a hub's cluster in a kubeconfig what the flags of the hub allow, so that commands
// need not be given the same flags.
func WritePolicy(entry *clientcmdapi.Cluster, p kubeconfig.Policy) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("write the policy of the hub: %w", err)
	}
	if entry.Extensions == nil {
		entry.Extensions = map[string]runtime.Object{}
	}
	entry.Extensions[policyExtension] = &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}
	return nil
}

// Policy returns what the flags of the hub allow, if the kubeconfig tells: that of the command dev does.
func (f *Flags) Policy() kubeconfig.Policy {
	var p kubeconfig.Policy
	_, entry := f.chosen()
	if entry == nil {
		return p
	}
	if extension, ok := entry.Extensions[policyExtension].(*runtime.Unknown); !ok || json.Unmarshal(extension.Raw, &p) != nil {
		return kubeconfig.Policy{}
	}
	return p
}

// Dev returns the path of the kubeconfig of a running dev if the hub's cluster was found there, and "" otherwise.
func (f *Flags) Dev() string {
	origin, _ := f.chosen()
	if origin != "" && f.kubeconfig == "" && origin == fromDev() {
		return origin
	}
	return ""
}

// chosen returns the entry of the hub's cluster in the kubeconfig, and the file that it is from. It is nil if there is none.
func (f *Flags) chosen() (string, *clientcmdapi.Cluster) {
	raw, err := f.loader().RawConfig()
	if err != nil {
		return "", nil
	}
	name := f.overrides.CurrentContext
	if name == "" {
		name = raw.CurrentContext
	}
	chosen, ok := raw.Contexts[name]
	if !ok {
		return "", nil
	}
	return chosen.LocationOfOrigin, raw.Clusters[chosen.Cluster]
}

// rulesFor returns where to look for a kubeconfig: in the file that a flag names, else in those of $KUBECONFIG, else in that
// of a dev that runs below the current folder, and in ~/.kube/config.
func rulesFor(flag string) *clientcmd.ClientConfigLoadingRules {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = flag
	if path := fromDev(); flag == "" && path != "" {
		rules.Precedence = append([]string{path}, rules.Precedence...)
	}
	return rules
}

// fromDev returns the kubeconfig of a running dev, unless the environment names others.
func fromDev() string {
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		return ""
	}
	return devdir.Kubeconfig()
}

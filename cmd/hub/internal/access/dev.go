// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Extensions of the hub's cluster in the kubeconfig of a dev: the policy of the hub's flags, so that commands need not repeat the
// flags, and the address of its NATS server.
const (
	policyExtension = "clusterfx.dev/hub-policy"
	NATSExtension   = "clusterfx.dev/nats-url"
)

// WritePolicy writes the policy of the hub's flags into a kubeconfig.
func WritePolicy(entry *clientcmdapi.Cluster, p kubeconfig.Policy) error {
	return extend(entry, policyExtension, p)
}

// WriteNATS writes the address of the hub's NATS server into a kubeconfig.
func WriteNATS(entry *clientcmdapi.Cluster, url string) error {
	return extend(entry, NATSExtension, url)
}

func extend(entry *clientcmdapi.Cluster, name string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if entry.Extensions == nil {
		entry.Extensions = map[string]runtime.Object{}
	}
	entry.Extensions[name] = &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}
	return nil
}

// NATS returns the address of the hub's NATS server if the kubeconfig, of dev --nats, has it.
func (f *Flags) NATS() string { return extension[string](f, NATSExtension) }

// Policy returns the policy of the hub's flags if the kubeconfig, of dev, has it.
func (f *Flags) Policy() kubeconfig.Policy { return extension[kubeconfig.Policy](f, policyExtension) }

// extension returns the zero value if the entry for the hub's cluster has none that can be read.
func extension[T any](f *Flags, name string) T {
	var value, none T
	raw, err := f.load().RawConfig()
	if err != nil {
		return none
	}
	entry, _, err := entryOf(raw, f.overrides.CurrentContext)
	if err != nil {
		return none
	}
	if found, ok := entry.Extensions[name].(*runtime.Unknown); !ok || json.Unmarshal(found.Raw, &value) != nil {
		return none
	}
	return value
}

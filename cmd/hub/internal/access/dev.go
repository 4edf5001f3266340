// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// DevExtension is the extension with a Dev of the hub's cluster in the kubeconfig that the command dev writes.
const DevExtension = "clusterfx.dev/hub"

// Dev is what commands know of the hub of the command dev, so that they need not repeat its flags. The zero Dev is any other hub.
type Dev struct {
	Policy kubeconfig.Policy `json:"policy"`
	// NATS is the address of its server, if there is one.
	NATS string `json:"nats,omitempty"`
}

// Write writes it into the hub's cluster in a kubeconfig.
func (d Dev) Write(to *clientcmdapi.Cluster) error {
	raw, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("write %s: %w", DevExtension, err)
	}
	to.Extensions = map[string]runtime.Object{DevExtension: &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}}
	return nil
}

// Dev returns what the kubeconfig has.
func (f *Flags) Dev() (d Dev) {
	raw, err := f.load().RawConfig()
	if err != nil {
		return Dev{}
	}
	entry, _, err := entryOf(raw, f.overrides.CurrentContext)
	if err != nil {
		return Dev{}
	}
	if found, ok := entry.Extensions[DevExtension].(*runtime.Unknown); !ok || json.Unmarshal(found.Raw, &d) != nil {
		return Dev{}
	}
	return d
}

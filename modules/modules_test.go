// SPDX-License-Identifier: Apache-2.0

package modules_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules"
	"github.com/clusterfx/clusterfx/registry"
)

// A registry accepts the names and the graphs of all modules, each alone and all together.
func TestAll_GoTogether(t *testing.T) {
	t.Parallel()
	_, err := registry.New(registry.Options{
		Hub: &rest.Config{}, HubMapper: meta.MultiRESTMapper{}, Scheme: runtime.NewScheme(), Modules: modules.All(),
	})
	testkit.NoError(t, err)
	for _, m := range modules.All() {
		if m.Description() == "" {
			t.Errorf("module %s has no description", m.Name())
		}
	}
}

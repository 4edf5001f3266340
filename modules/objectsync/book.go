// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"encoding/json"
	"fmt"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

// Name of the module.
const Name = "sync"

// book is what the operator has configured: for RulesModule, whose own configuration has nothing.
type book struct {
	config  rules.Config
	modules []registry.Module // Module as it is configured
}

func newBook(configs []moduleconfig.Config) (b book, err error) {
	b.config = rules.Defaults()
	for _, one := range configs {
		if one.Name == Name && len(one.Config) > 0 {
			err = json.Unmarshal(one.Config, &b.config)
		}
	}
	if err == nil {
		b.modules, err = registry.ConfigureModules([]registry.Module{Module}, configs)
	}
	if err != nil {
		return book{}, fmt.Errorf("read the configuration of %s: %w", Name, err)
	}
	return b, nil
}

func (b book) runs(c *hubv1.Cluster) bool {
	return len(registry.SelectModules(b.modules, c.Labels, c.Spec.Modules)) > 0
}

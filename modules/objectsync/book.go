// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

// Name of the module.
const Name = "sync"

// book is what the operator has configured: for RulesModule, whose own configuration has nothing.
type book struct {
	config   rules.Config
	clusters labels.Selector // that run the module, unless spec.modules is set
}

func newBook(configs []moduleconfig.Config) (book, error) {
	b := book{config: rules.Defaults(), clusters: labels.Everything()}
	i := slices.IndexFunc(configs, func(c moduleconfig.Config) bool { return c.Name == Name })
	if i < 0 {
		return b, nil
	}
	own := configs[i]
	if len(own.Config) > 0 {
		if err := json.Unmarshal(own.Config, &b.config); err != nil {
			return book{}, fmt.Errorf("decode the configuration of %s: %w", Name, err)
		}
	}
	if own.Clusters == nil {
		return b, nil
	}
	var err error
	if b.clusters, err = metav1.LabelSelectorAsSelector(own.Clusters); err != nil {
		return book{}, fmt.Errorf("decode the selector of clusters: %w", err)
	}
	return b, nil
}

func (b book) runs(c *hubv1.Cluster) bool {
	if c.Spec.Modules != nil {
		return slices.Contains(c.Spec.Modules, Name)
	}
	return b.clusters.Matches(labels.Set(c.Labels))
}

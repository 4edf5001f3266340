// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
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

// book has the rules of all Clusters, and which of them run the module.
type book struct {
	rules.Book
	clusters labels.Selector // that run the module, unless spec.modules is set
}

func newBook(base rules.Config, configs []moduleconfig.Config) (book, error) {
	var own moduleconfig.Config
	if i := slices.IndexFunc(configs, func(c moduleconfig.Config) bool { return c.Name == Name }); i >= 0 {
		own = configs[i]
	}
	all, err := rules.NewBook(base, own.Overrides)
	if err != nil {
		return book{}, err
	}
	clusters, err := metav1.LabelSelectorAsSelector(own.Clusters) // of nil: none
	if err != nil {
		return book{}, fmt.Errorf("decode the selector of clusters: %w", err)
	}
	return book{Book: all, clusters: clusters}, nil
}

func (b book) runs(c *hubv1.Cluster) bool {
	if c.Spec.Modules != nil {
		return slices.Contains(c.Spec.Modules, Name)
	}
	return b.clusters.Matches(labels.Set(c.Labels))
}

// holding returns the rules whose originals in the hub have a finalizer.
func (b book) holding() []rules.Rule {
	return slices.DeleteFunc(b.All(), func(r rules.Rule) bool { return !holds(r) })
}

func holds(r rules.Rule) bool {
	return r.From == rules.FromHub && r.IsOneToOne() && r.Mode == rules.Enforce
}

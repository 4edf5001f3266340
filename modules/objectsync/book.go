// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

// Name is the name of the module.
const Name = "sync"

// book has the rules of all clusters.
type book struct {
	config    rules.Config
	clusters  labels.Selector // of the Clusters that run the module, unless their spec.modules is set
	base      []rules.Rule    // of config
	overrides []override
}

// override is what differs for the clusters with some labels.
type override struct {
	clusters     labels.Selector
	hasRules     bool // rules replace those before; otherwise they stay
	rules        []rules.Rule
	abandonAfter *string
}

// newBook returns the rules of a configuration and its overrides, which the hub has checked.
func newBook(base rules.Config, configs []moduleconfig.Config) (book, error) {
	b := book{config: base, base: base.Complete(), clusters: labels.Nothing()}
	i := slices.IndexFunc(configs, func(c moduleconfig.Config) bool { return c.Name == Name })
	if i < 0 {
		return b, nil
	}
	if selector := configs[i].Clusters; selector != nil {
		var err error
		if b.clusters, err = metav1.LabelSelectorAsSelector(selector); err != nil {
			return b, fmt.Errorf("decode the selector of clusters: %w", err)
		}
	}
	for _, o := range configs[i].Overrides {
		var c struct {
			Rules        json.RawMessage `json:"rules"` // null replaces the rules by none
			AbandonAfter *string         `json:"abandonAfter"`
		}
		if len(o.Config) > 0 {
			if err := json.Unmarshal(o.Config, &c); err != nil {
				return b, fmt.Errorf("decode an override: %w", err)
			}
		}
		selector, err := metav1.LabelSelectorAsSelector(&o.Selector)
		if err != nil {
			return b, fmt.Errorf("decode an override: %w", err)
		}
		one := override{clusters: selector, abandonAfter: c.AbandonAfter, hasRules: c.Rules != nil}
		if one.hasRules {
			var list []rules.Rule
			if err := json.Unmarshal(c.Rules, &list); err != nil {
				return b, fmt.Errorf("decode the rules of an override: %w", err)
			}
			one.rules = rules.Config{Rules: list}.Complete()
		}
		b.overrides = append(b.overrides, one)
	}
	return b, nil
}

// runs reports whether a Cluster runs the module.
func (b book) runs(c *hubv1.Cluster) bool {
	if c.Spec.Modules != nil {
		return slices.Contains(c.Spec.Modules, Name)
	}
	return b.clusters.Matches(labels.Set(c.Labels))
}

// of returns the rules of a cluster with these labels.
func (b book) of(cluster map[string]string) []rules.Rule {
	found := b.base
	for _, o := range b.overrides {
		if o.hasRules && o.clusters.Matches(labels.Set(cluster)) {
			found = o.rules
		}
	}
	return found
}

// abandonAfter returns for how long a cluster with these labels may be away, and false for no limit.
func (b book) abandonAfter(cluster map[string]string) (time.Duration, bool) {
	c := b.config
	for _, o := range b.overrides {
		if o.abandonAfter != nil && o.clusters.Matches(labels.Set(cluster)) {
			c.AbandonAfter = *o.abandonAfter
		}
	}
	return c.Abandon()
}

// holding returns the rules of all clusters whose originals in the hub have a finalizer.
func (b book) holding() []rules.Rule {
	all := slices.Clone(b.base)
	for _, o := range b.overrides {
		all = append(all, o.rules...)
	}
	return slices.DeleteFunc(all, func(r rules.Rule) bool { return !holds(r) })
}

// holds reports whether the originals of a rule in the hub have a finalizer.
func holds(r rules.Rule) bool {
	return r.From == rules.FromHub && r.IsOneToOne() && r.Mode == rules.Enforce
}

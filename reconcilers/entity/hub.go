// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
)

// HubOptions describe secondaries in the hub. Their names must differ between remotes, as <key>-<cluster>. They stay
// when the Cluster is deleted, unless a cleanup step deletes them.
type HubOptions struct {
	Client  client.Client // Client and Objects are registry.Remote.HubClient and HubObjects
	Objects *hubobjects.Source
	Owns    []client.Object // empty objects of the kinds. HubRules must allow get, list, watch, patch and delete.
}

// hubMarks are for secondaries where those of all clusters are.
func (c *Controller[T]) hubMarks() Marks {
	m := c.options.Marks
	m.cluster = c.options.Cluster
	return m
}

// watchHub: all apps share the informers, whose selector is the primaries' kind.
func (c *Controller[T]) watchHub(b *registry.ControllerBuilder[Request]) error {
	hub := c.options.Hub
	if hub == nil {
		return nil
	}
	label, value := c.options.Marks.KindLabel()
	for _, one := range hub.Owns {
		kind, err := apiutil.GVKForObject(one, hub.Client.Scheme())
		if err != nil {
			return err
		}
		found, err := hub.Objects.Watch(hubobjects.Selection{
			Object: one, Labels: labels.SelectorFromSet(labels.Set{label: value}), Route: hubobjects.ByLabel(c.options.Marks.clusterLabel()),
		}, c.hubMarks().clusterValue())
		if err != nil {
			return fmt.Errorf("watch %s in the hub: %w", kind.Kind, err)
		}
		owned := newObjects(one, kind, c.hubMarks(), found)
		c.inHub = append(c.inHub, owned)
		b.WatchesRawSource(owned.hubSource(found))
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"cmp"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/guard"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

// name is the name of the module, its pipeline and its guard.
const name = "dns"

// ConditionPrefix begins the types of the conditions: DNSReady, and DNSReconciling and DNSStalled while they
// are True.
const ConditionPrefix = "DNS"

// Setup adds the controller to the hub's manager. Without a server it does nothing. It makes no requests.
func Setup(p Params) error {
	if p.Config.Server == "" {
		return nil
	}
	if p.Registry.HubID == "" {
		return errors.New("the module dns needs the hub's id, to distinguish its records from the records of other hubs; set it in registry.Options")
	}
	namespace := cmp.Or(p.Cluster.Namespace, hubv1.DefaultNamespace)
	host, err := guard.NewHost(p.Manager.GetClient(), p.Manager.GetAPIReader(), guard.Options[*hubv1.Cluster]{
		Name: name, LeaseNamespace: namespace, TTL: seconds(p.Config.LockSeconds),
	})
	if err != nil {
		return err
	}
	resource, err := pipeline.NewCRUDResource(&records{
		zone: newZone(p.Config, secret{
			live: p.Manager.GetAPIReader(), name: client.ObjectKey{Namespace: namespace, Name: p.Config.Key.SecretRef.Name},
			entry: p.Config.Key.SecretRef.Key,
		}),
		ttl: uint32(p.Config.TTLSeconds), hub: p.Registry.HubID,
		locks: locks{host: host},
	}, pipeline.CreateDeleteUpdate)
	if err != nil {
		return err
	}
	router, err := pipeline.NewRouter(pipeline.Set[*hubv1.Cluster]{
		Name:      name,
		Handles:   func(*hubv1.Cluster) bool { return true },
		Resources: []pipeline.Resource[*hubv1.Cluster]{resource},
	})
	if err != nil {
		return err
	}
	err = pipeline.AddTo(p.Manager, router, pipeline.Options[*hubv1.Cluster]{
		Name:            name,
		Conditions:      func(c *hubv1.Cluster) []metav1.Condition { return c.Status.Conditions },
		ConditionPrefix: ConditionPrefix,
	})
	if err != nil {
		return fmt.Errorf("set up the module dns: %w", err)
	}
	return nil
}

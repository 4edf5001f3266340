// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// Bucket has the tenants.
const Bucket = "tenants"

// Reasons of a tenant's status in a remote.
const (
	ReasonMade       = "Made"       // everything is there
	ReasonSuspended  = "Suspended"  // everything is there, and the quota admits no Pods
	ReasonInvalidKey = "InvalidKey" // the key cannot be a part of the name of a namespace
)

// Params are what SetUp takes.
type Params struct {
	registry.Remote

	NATS *natshub.Connection
}

// SetUp adds the controller of tenants to the app of a remote.
func SetUp(p Params) error {
	tenants, err := p.NATS.Follow(Bucket)
	if err != nil {
		return fmt.Errorf("follow bucket %s: %w", Bucket, err)
	}
	status, err := p.NATS.Status(Bucket)
	if err != nil {
		return fmt.Errorf("follow the status of bucket %s: %w", Bucket, err)
	}
	r := &reconciler{labels: p.Labels}
	_, err = entity.Add(entity.NewStore(tenants, entity.JSON(Validate)), r, entity.Options{
		Name: "tenants", Marks: entity.Marks{Hub: p.HubID, Kind: "Tenant"}, Manager: p.Manager, Cluster: string(p.Name),
		Owns: kinds(), Status: status,
		Reads: []source.TypedSource[entity.Request]{registry.Changed(p.Facts, func(context.Context) (all []entity.Request) {
			for _, key := range tenants.Keys() {
				all = append(all, entity.Request{Key: key})
			}
			return all
		})},
	})
	return err
}

func cleanup(p Params) (registry.CleanupStep, error) {
	status, err := p.NATS.Status(Bucket)
	return registry.CleanupStep{Name: "tenants/status", Run: func(ctx context.Context) error {
		return status.RemoveCluster(ctx, string(p.Name))
	}}, err
}

type reconciler struct {
	labels func() map[string]string // the Cluster's now
}

var _ entity.Reconciler[Tenant] = (*reconciler)(nil)

func (r *reconciler) Reconcile(ctx context.Context, t *entity.Entity[Tenant], s *entity.Secondaries) (entity.Report, error) {
	if problems := validation.IsDNS1123Label(namespaceOf(t.Key)); len(problems) > 0 {
		return entity.Report{Reason: ReasonInvalidKey, Message: "The key of a tenant is a DNS label of at most 56 bytes."}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(t.Value.Clusters)
	if err != nil {
		return entity.Report{}, err // Validate has checked it.
	}
	if !selector.Matches(labels.Set(r.labels())) {
		// The labels of the Cluster decide as well, and may be gone by mistake: the tenant is not the cause.
		return entity.Report{Omit: true}, s.DeleteOthers(deletes.CausedBy(ctx, ""))
	}
	wanted := t.Value.objects(t.Key)
	for _, obj := range wanted {
		if err := s.Apply(ctx, obj); err != nil {
			return entity.Report{}, err
		}
	}
	report := entity.Report{Ready: true, Reason: ReasonMade}
	if t.Value.State == Suspended {
		report.Reason = ReasonSuspended
	}
	return report, s.DeleteOthers(ctx, wanted...)
}

// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/guard/lock"
	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
)

// hostLabel is on every Lease, with Options.Name.
const hostLabel = Prefix + "host"

const (
	annotationRecord    = Prefix + "record"
	annotationCondition = Prefix + "condition"
	annotationObject    = Prefix + "object"
)

// leaseStore keeps lock and condition in a Lease. The condition in the object is a copy that is never read to decide.
type leaseStore[O client.Object] struct {
	*Host[O]
	name  client.ObjectKey
	lease client.ObjectKey
	kind  string
}

func (p leaseStore[O]) view(ctx context.Context, obj O) (entry, error) {
	s := snapshot[O]{object: obj}
	if err := p.readLease(ctx, &s); err != nil {
		return entry{}, err
	}
	// The copy is missing if a process ended between the two writes.
	_, err := p.show(ctx, s)
	return s.entry, client.IgnoreNotFound(err)
}

func (p leaseStore[O]) read(ctx context.Context) (snapshot[O], error) {
	s := snapshot[O]{object: object.New[O]()}
	if err := p.live.Get(ctx, p.name, s.object); err != nil {
		return s, err
	}
	return s, p.readLease(ctx, &s)
}

func (p leaseStore[O]) readLease(ctx context.Context, s *snapshot[O]) error {
	s.lock.Type = p.kind
	found := &coordinationv1.Lease{}
	if err := p.live.Get(ctx, p.lease, found); err != nil {
		return client.IgnoreNotFound(err)
	}
	s.lease = found
	return decode(found, &s.entry)
}

func decode(l *coordinationv1.Lease, e *entry) error {
	for key, into := range map[string]any{annotationRecord: &e.lock, annotationCondition: &e.condition} {
		if err := json.Unmarshal([]byte(l.Annotations[key]), into); err != nil {
			// The error of the decoder is left out: it quotes the annotation.
			return fmt.Errorf("annotation %s of Lease %s cannot be decoded; repair it, or delete the Lease to forget the attempts of this condition",
				key, client.ObjectKeyFromObject(l))
		}
	}
	return nil
}

func (p leaseStore[O]) write(ctx context.Context, s snapshot[O]) (O, error) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: p.lease.Namespace, Name: p.lease.Name}}
	if s.lease != nil {
		lease = s.lease.DeepCopy()
	}
	if err := p.fill(lease, s); err != nil {
		return s.object, err
	}
	var err error
	if s.lease == nil {
		err = p.client.Create(ctx, lease, client.FieldOwner(p.options.identity()))
	} else {
		err = p.client.Update(ctx, lease, client.FieldOwner(p.options.identity()))
	}
	if apierrors.IsAlreadyExists(err) || s.lease != nil && apierrors.IsNotFound(err) {
		gr := schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}
		return s.object, apierrors.NewConflict(gr, lease.Name, err)
	}
	if err != nil {
		return s.object, err
	}
	return p.show(ctx, s)
}

// fill writes the entry to annotations, and the holder and the times also to the Lease's own fields.
func (p leaseStore[O]) fill(lease *coordinationv1.Lease, s snapshot[O]) error {
	record, err := json.Marshal(s.lock)
	if err != nil {
		return err
	}
	condition, err := json.Marshal(s.condition)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotationRecord, string(record))
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotationCondition, string(condition))
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotationObject, fmt.Sprintf("%s %s", p.gvk.GroupKind(), p.name))
	metav1.SetMetaDataLabel(&lease.ObjectMeta, hostLabel, p.options.Name)
	lease.Spec = coordinationv1.LeaseSpec{}
	if s.lock.Holder != "" {
		lease.Spec.HolderIdentity = &s.lock.Holder
		lease.Spec.LeaseDurationSeconds = &s.lock.TTLSeconds
		lease.Spec.AcquireTime = micro(s.lock.AcquiredAt)
		lease.Spec.RenewTime = micro(s.lock.RenewedAt)
	}
	return nil
}

func micro(t *metav1.Time) *metav1.MicroTime {
	if t == nil {
		return nil
	}
	m := metav1.NewMicroTime(t.Truncate(time.Microsecond))
	return &m
}

func (p leaseStore[O]) show(ctx context.Context, s snapshot[O]) (O, error) {
	if p.options.Conditions == nil || s.condition.Type == "" {
		return s.object, nil
	}
	shown := meta.FindStatusCondition(*p.options.Conditions(s.object), p.kind)
	if shown != nil && isSame(*shown, s.condition) {
		return s.object, nil
	}
	target := s.object.DeepCopyObject().(O)
	target.SetResourceVersion("")
	return p.apply(ctx, target, p.kind, map[string]any{"conditions": []any{s.condition}})
}

func isSame(a, b metav1.Condition) bool {
	a.LastTransitionTime, b.LastTransitionTime = a.LastTransitionTime.Rfc3339Copy(), b.LastTransitionTime.Rfc3339Copy()
	same := a.LastTransitionTime.Equal(&b.LastTransitionTime)
	a.LastTransitionTime, b.LastTransitionTime = metav1.Time{}, metav1.Time{}
	return same && a == b
}

// discard returns a function that deletes the Lease, unless it has changed since discard read it.
func (p leaseStore[O]) discard(
	ctx context.Context, may func(lock.State) error,
) (func(context.Context) error, error) {
	nothing := func(context.Context) error { return nil }
	var s snapshot[O]
	if err := p.readLease(ctx, &s); err != nil || s.lease == nil {
		return nothing, err
	}
	if err := may(s.lock); err != nil {
		return nothing, err
	}
	return func(ctx context.Context) error { return p.deleteLease(ctx, s.lease) }, nil
}

func (h *Host[O]) deleteLease(ctx context.Context, l *coordinationv1.Lease) error {
	is := client.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion}
	return client.IgnoreNotFound(h.client.Delete(ctx, l, is))
}

// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/guard"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

// records is the resource of the pipeline: the record of a Cluster, with its mark.
type records struct {
	zone  zone
	ttl   uint32
	hub   string // the hub's id
	locks locks
}

// Name names the resource.
func (*records) Name() string { return "record" }

// GetCurrentState reads the mark, and if it is ours the record.
func (r *records) GetCurrentState(ctx context.Context, c *hubv1.Cluster) (state, error) {
	return r.look(ctx, c, placeOf(c, r.zone.name))
}

// GetDesiredState returns the record for the server that the hub uses, or no record while that server is unknown.
func (r *records) GetDesiredState(_ context.Context, c *hubv1.Cluster) (state, error) {
	wanted, err := recordOf(c.Status.Server, r.ttl)
	if err != nil || wanted == nil || !c.DeletionTimestamp.IsZero() {
		return state{}, nil //nolint:nilerr // NewUpdatePatch reports the error; a deletion does not need the record
	}
	return state{records: []record{*wanted}}, nil
}

// NewUpdatePatch compares. A foreign record is an error.
func (r *records) NewUpdatePatch(
	ctx context.Context, c *hubv1.Cluster, current, desired state,
) (*pipeline.Patch[record], error) {
	if err := r.impossible(c); err != nil {
		return nil, err
	}
	if len(desired.records) == 0 {
		pipeline.FlowFrom(ctx).CancelResource("the Cluster has no status.server yet")
		return nil, nil //nolint:nilnil // which is a patch that changes nothing
	}
	patch, wanted := &pipeline.Patch[record]{}, desired.records[0]
	switch {
	case current.owner == nil:
		patch.SetCreateChange(wanted)
	case !current.owner.isOf(r.hub, c.UID):
		return nil, taken(c, r.zone.name)
	case !current.is(wanted):
		patch.SetUpdateChange(wanted)
	}
	return patch, nil
}

// impossible returns why there can be no record for a Cluster before it changes.
func (r *records) impossible(c *hubv1.Cluster) error {
	why := ""
	wanted, err := recordOf(c.Status.Server, r.ttl)
	switch {
	case err != nil:
		why = err.Error()
	case wanted != nil && wanted.value == placeOf(c, r.zone.name).name:
		why = "status.server is the very name that is to lead to it; give the Cluster another spec.server"
	default:
		return nil
	}
	return reconcile.TerminalError(&pipeline.ReasonError{Reason: ReasonNoRecord, Message: why})
}

// NewDeletePatch always has something to do: a hub that was killed may have sent a request that is not seen
// yet, and deleting waits until its lock has expired.
func (*records) NewDeletePatch(context.Context, *hubv1.Cluster, state, state) (*pipeline.Patch[record], error) {
	patch := &pipeline.Patch[record]{}
	patch.SetDeleteChange(record{})
	return patch, nil
}

// ApplyCreateChange creates the record exactly once: under the lock, and with the id of the attempt in the mark, by
// which a later run of the same attempt finds the record of an earlier run.
func (r *records) ApplyCreateChange(ctx context.Context, c *hubv1.Cluster, wanted record) error {
	at := placeOf(c, r.zone.name)
	return r.locks.hold(ctx, c, "create "+wanted.String(), func(ctx context.Context, a guard.Attempt) error {
		return r.zone.do(ctx, func(s *session) error {
			if a.Recovering {
				found, err := s.owner(ctx, at)
				if err != nil || found != nil && found.attempt == a.ID {
					return err
				}
			}
			err := s.create(ctx, at, wanted, owner{hub: r.hub, cluster: c.UID, attempt: a.ID})
			if errors.Is(err, errExists) {
				return r.settle(ctx, s, c)
			}
			if err != nil {
				return err
			}
			return r.verify(ctx, s, at, wanted)
		})
	})
}

// settle determines who created a name first. It may have been a delayed request of this hub.
func (r *records) settle(ctx context.Context, s *session, c *hubv1.Cluster) error {
	at := placeOf(c, r.zone.name)
	found, err := s.owner(ctx, at)
	if err != nil || found != nil && found.isOf(r.hub, c.UID) {
		return err
	}
	return taken(c, r.zone.name)
}

// ApplyUpdateChange writes the desired record, if this hub still owns it.
func (r *records) ApplyUpdateChange(ctx context.Context, c *hubv1.Cluster, wanted record) error {
	at := placeOf(c, r.zone.name)
	return r.locks.hold(ctx, c, "change it to "+wanted.String(), func(ctx context.Context, _ guard.Attempt) error {
		return r.zone.do(ctx, func(s *session) error {
			found, err := s.owner(ctx, at)
			if err != nil {
				return err
			}
			if found == nil || !found.isOf(r.hub, c.UID) {
				return errChanged
			}
			if err := s.replace(ctx, at, wanted, *found); err != nil {
				return err
			}
			return r.verify(ctx, s, at, wanted)
		})
	})
}

// ApplyDeleteChange removes the record if this hub owns it, and then the Lease of the lock.
func (r *records) ApplyDeleteChange(ctx context.Context, c *hubv1.Cluster, _ record) error {
	at := placeOf(c, r.zone.name)
	err := r.locks.hold(ctx, c, "delete it", func(ctx context.Context, _ guard.Attempt) error {
		return r.zone.do(ctx, func(s *session) error {
			found, err := s.owner(ctx, at)
			if err != nil || found == nil || !found.isOf(r.hub, c.UID) {
				return err
			}
			return s.remove(ctx, at, *found)
		})
	})
	if err != nil {
		return err
	}
	return r.locks.forget(ctx, c)
}

// look reads the records at a place.
func (r *records) look(ctx context.Context, c *hubv1.Cluster, at place) (found state, err error) {
	err = r.zone.do(ctx, func(s *session) error {
		if found.owner, err = s.owner(ctx, at); err != nil || found.owner == nil || !found.owner.isOf(r.hub, c.UID) {
			return err
		}
		found.records, err = s.records(ctx, at)
		return err
	})
	return found, err
}

// verify makes sure that an accepted change was made: a server ignores a CNAME, without a word, where its name has
// other records.
func (r *records) verify(ctx context.Context, s *session, at place, wanted record) error {
	found, err := s.records(ctx, at)
	if err != nil || (state{records: found}).is(wanted) {
		return err
	}
	return &pipeline.ReasonError{Reason: ReasonNotApplied, Message: fmt.Sprintf(
		"The DNS server has accepted %s for %s and has not made it so; look for other records of that name", wanted, bare(at.name),
	)}
}

func taken(c *hubv1.Cluster, zone string) error {
	return &pipeline.ReasonError{Reason: ReasonNameTaken, Message: fmt.Sprintf(
		"%s.%s has records that are not marked as this Cluster's; delete them in the zone, with %s.%s.%s, or name the Cluster otherwise",
		c.Name, bare(zone), markLabel, c.Name, bare(zone),
	)}
}

// bare returns a domain name without the final dot, as people write it.
func bare(name string) string { return strings.TrimSuffix(name, ".") }

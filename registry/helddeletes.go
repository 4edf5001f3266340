// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/evidence"
	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/deletions"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
	"github.com/clusterfx/clusterfx/registry/state"
)

const hubModule = "hub" // hubModule is the name under which deletes of the hub's own code are counted.

const upkeepEvery = 5 * time.Second

// newDeletes sends no request.
func (r *Registry) newDeletes(o Options, modules catalog.Catalog) (*deletions.Guard, error) {
	config := rest.CopyConfig(o.Hub)
	config.QPS = -1
	hub, err := client.New(config, client.Options{HTTPClient: &http.Client{Transport: r.hubTransport}, Mapper: o.HubMapper})
	if err != nil {
		return nil, fmt.Errorf("build the client of the store of holds: %w", err)
	}
	r.remotes.Apps.HubPlace = evidence.Place{Reader: hub, Mapper: o.HubMapper}
	var store deletions.Store = deletions.MemoryStore{}
	if o.Holds.Name != "" {
		store = &deletions.ConfigMapStore{Client: hub, Key: o.Holds}
	}
	now := o.Now
	if now == nil {
		now = time.Now
	}
	replica := "" // of a hub alone
	if o.Alive != nil {
		replica = o.Replica
	}
	return deletions.New(deletions.Options{
		Store: store, Now: now, Replica: replica, IsAlive: o.Alive,
		Place:  r.placesBehind(o.Gate),
		Module: moduleBehind, App: appBehind, Blind: blindBehind, Silent: r.isSilent,
		Limits: func(module string, labels map[string]string) deletes.Limits {
			if known := modules.Find(module); known != nil {
				return known.DeleteLimits(labels)
			}
			return deletes.Limits{}
		},
		Counted: func(module string, target ClusterName, evidence deletes.EvidenceKind, objects int) {
			r.remotes.Apps.Metrics.CountDeletes(string(target), module, string(evidence), objects)
		},
		Refused: func(module string, target ClusterName, reason deletes.Reason) {
			r.remotes.Apps.Metrics.CountHeldDelete(string(target), module, string(reason))
		},
		Began: func(h ledger.Held, restored bool) {
			r.log.Info("Deletes of a module are held", append(logged(h), "deleted", h.Deleted, "atLeastMore", h.More, "restored", restored)...)
		},
		Ended: func(h ledger.Held) {
			r.log.Info("A hold of deletes has ended", append(logged(h), "allowed", h.Granted)...)
		},
		Changed: func(target ClusterName) {
			if target != "" {
				r.events.publish(Event{Name: target, Kind: EventChanged})
			}
		},
	}), nil
}

func moduleBehind(ctx context.Context) string { return cmp.Or(contain.ModuleOf(ctx), hubModule) }

func appBehind(ctx context.Context) ClusterName {
	if g := contain.GuardOf(ctx); g != nil {
		return ClusterName(g.App.Name)
	}
	return ""
}

func blindBehind(ctx context.Context) string {
	if g := contain.GuardOf(ctx); g != nil && g.Module != "" {
		return g.App.Blind(g.Module)
	}
	return ""
}

// placesBehind returns where the holds of a remote are kept, and in which term.
func (r *Registry) placesBehind(gate func(ClusterName) (int64, error)) func(ClusterName) (uid types.UID, term int64, closed error) {
	return func(name ClusterName) (uid types.UID, term int64, closed error) {
		if gate != nil {
			term, closed = gate(name)
		}
		if name == "" {
			return "", 0, closed
		}
		a, err := r.actor(name)
		if err != nil {
			return "", 0, err
		}
		return a.Current().Status.Owner.UID, term, closed
	}
}

func (r *Registry) isSilent(name ClusterName) bool {
	a, err := r.actor(name)
	return err == nil && a.Current().Status.State != state.StateReady
}

// keepUp begins with the stored holds. The caller has r.mu, and r is not closed.
func (r *Registry) keepUp() {
	r.begun.Do(func() {
		if r.ownPulse {
			r.upkeep.Go(func() { r.pulse.Run(r.remotes.Apps.Root) })
		}
		r.upkeep.Go(func() {
			apps := r.remotes.Apps
			apps.Deletes.Run(apps.Root, upkeepEvery, func(err error) {
				if err != nil {
					r.log.Error(err, "Failed to keep the holds of deletes; the hub needs to get, create and patch the ConfigMap of its holds")
					return
				}
				r.log.Info("The holds of deletes are kept again")
			})
		})
	})
}

// logged is for log lines. The names in a hold are texts of a remote.
func logged(h ledger.Held) []any {
	about := []any{"hold", h.ID, "module", h.Module, "resource", h.Kind().String(), "cluster", h.Cluster, "fleet", h.Fleet}
	if h.Cause != "" {
		about = append(about, "cause", h.Cause)
	}
	return about
}

func (r *Registry) withHeld(s Status) Status {
	shown := r.remotes.Apps.Deletes.Shown(s.Name)
	switch {
	case len(shown.Holds) > 0:
		s.DeletesHeld = state.Condition{
			Status: metav1.ConditionTrue, Reason: string(deletes.LimitExceeded), Message: describeHolds(shown.Holds),
		}
	case shown.Unavailable != nil:
		s.DeletesHeld = state.Condition{
			Status: metav1.ConditionTrue, Reason: string(deletes.StoreUnavailable),
			Message: "deletes of modules are refused: " + state.Sanitize(shown.Unavailable.Error()),
		}
	case !shown.Known:
		s.DeletesHeld = state.Condition{Status: metav1.ConditionUnknown}
	}
	return s
}

// describeHolds puts the names of objects last, which are texts of the remote.
func describeHolds(holds []ledger.Held) string {
	var sentences, names []string
	for _, h := range holds {
		sentences = append(sentences, "hold "+h.ID+": "+h.String())
		if len(h.Names) > 0 {
			names = append(names, h.ID+" holds "+strings.Join(h.Names, ", "))
		}
	}
	return state.Sanitize(strings.Join(append(sentences, names...), "; "))
}

// HeldDeletes returns the holds in force, sorted by id.
func (r *Registry) HeldDeletes() []deletes.Hold {
	var all []deletes.Hold
	for _, h := range r.remotes.Apps.Deletes.Holds() {
		all = append(all, publicHold(h))
	}
	return all
}

func publicHold(h ledger.Held) deletes.Hold {
	return deletes.Hold{
		ID: h.ID, Module: h.Module, Resource: h.Kind(), Cluster: h.Cluster, Fleet: h.Fleet, Cause: h.Cause, Since: h.Since.Time,
		Deleted: h.Deleted, More: h.More, Names: h.Names, Allowed: h.Granted,
	}
}

// Removal is the removal of a Cluster.
type Removal = deletions.Removal

// AdmitRemoval returns nil if a Cluster may be removed, with its modules' cleanup: 3, or a twentieth of all, within ten minutes.
// Else the error wraps deletes.ErrHeld, and the hold is one of the hub. It waits for requests to the hub.
func (r *Registry) AdmitRemoval(ctx context.Context, one Removal) error {
	return r.remotes.Apps.Deletes.AdmitRemoval(ctx, one)
}

// AllowDeletes allows held deletes in a remote by the annotation clusterfx.dev/allow-deletes: ids of holds, each with "=" and the
// number of objects, separated by commas. Ids not in force there have no effect, and a value allows its deletes once. It fails
// for a value that it cannot read, or if the hold cannot be stored.
func (r *Registry) AllowDeletes(ctx context.Context, name ClusterName, value string) error {
	return r.remotes.Apps.Deletes.Allow(ctx, name, value)
}

// ErrNotOnPurpose is in the errors of DeletedOnPurpose that say what was deleted instead.
var ErrNotOnPurpose = errors.New("it was not deleted on purpose")

// DeletedOnPurpose returns nil if an object that is being deleted, or has gone, was deleted by itself, and not with its definition,
// an owner or its Namespace. hub must read live. It is for what a deletion means beside deletes, which deletes.Terminating judges.
func DeletedOnPurpose(ctx context.Context, hub client.Reader, of client.Client, last client.Object) error {
	kind, err := of.GroupVersionKindFor(last)
	if err != nil {
		return fmt.Errorf("find the kind of a deleted object: %w", err)
	}
	err = evidence.Place{Reader: hub, Mapper: of.RESTMapper()}.OnPurpose(ctx, kind, last)
	if errors.Is(err, evidence.ErrNone) {
		return fmt.Errorf("%w: %w", ErrNotOnPurpose, err)
	}
	return err
}

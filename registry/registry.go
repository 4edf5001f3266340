// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/hubobjects"
	"github.com/clusterfx/clusterfx/registry/internal/actor"
	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/hubpart"
	"github.com/clusterfx/clusterfx/registry/internal/logsink"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/liveness"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Registry runs one app per remote and lends out its client. All methods may be called from any goroutine, also in callbacks of
// WithClient. A hub part gets its own handle: functions that it gives run as code of the module, and end with the hub part.
type Registry struct {
	*core
	by *contain.Container // the hub part that this handle is for; nil for the hub itself
}

type core struct {
	remotes   *actor.Common      // what all remotes share
	end       context.CancelFunc // of the contexts of all Apps, after Shutdown
	log       logr.Logger
	hubID     string
	allowHub  bool
	allowTwin bool

	hubTransport  http.RoundTripper
	hubCache      client.Reader
	hubObjects    *hubobjects.Pool // the informers of the hub's objects
	appsNamespace string           // whose ServiceAccounts the apps act as in the hub; empty for the hub itself
	shared        []catalog.Shared
	middleware    *middlewareSet
	offers        atomic.Pointer[catalog.Offers] // the values that the hub parts of modules share now
	pulse         *liveness.Pulse                // tells probes that the hub itself is starved
	ownPulse      bool                           // it beats with the upkeep, and not with the monitor of the hub

	events  broadcast
	states  *telemetry.States
	parts   atomic.Pointer[hubpart.Supervisor] // nil without FX
	running sync.WaitGroup                     // the actors, also of remotes that are forgotten; added to while not closed
	upkeep  sync.WaitGroup                     // of the holds of deletes, and the pulse; added to while not closed
	begun   sync.Once                          // the upkeep

	mu     sync.RWMutex // protects the fields below; held for map operations only
	actors map[ClusterName]*actor.Actor
	claims claims
	closed bool
}

// New returns a registry without remotes, checks names, configuration and needs of modules, and sends nothing. Call Shutdown.
func New(o Options) (*Registry, error) {
	if o.Hub == nil || o.HubMapper == nil || o.Scheme == nil {
		return nil, errors.New("registry: Hub, HubMapper and Scheme are required")
	}
	if o.Alive != nil && (o.Gate == nil || o.Replica == "") {
		return nil, errors.New("registry: Gate and Replica are required with Alive")
	}
	modules, err := newCatalog(o)
	if err != nil {
		return nil, fmt.Errorf("check the modules: %w", err)
	}
	if err := checkHubRuns(modules); err != nil {
		return nil, fmt.Errorf("check the modules: %w", err)
	}
	inForce, err := newMiddlewareSet(o.Middleware)
	if err != nil {
		return nil, fmt.Errorf("check the middleware: %w", err)
	}
	if o.Impersonate {
		if err := catalog.CheckNamespaces(o.AppsNamespace); err != nil {
			return nil, fmt.Errorf("registry: AppsNamespace: %w", err)
		}
	}
	transport, err := rest.TransportFor(o.Hub)
	if err != nil {
		return nil, fmt.Errorf("build the transport to the hub: %w", err)
	}
	if o.Secrets == nil {
		o.Secrets = &kubeconfig.Redactor{}
	}
	r, err := newRegistry(o, modules, inForce, transport)
	if err != nil {
		return nil, err
	}
	logsink.FollowHub(o.Hub, o.Secrets)
	r.states = telemetry.NewStates(telemetry.StatesOptions{
		Remotes: r.List, HubParts: r.HubParts, Holds: r.HeldDeletes, StartSlots: r.startSlots, Aggregate: o.AggregateMetrics,
	})
	if err := r.states.Register(r.remotes.Apps.Registerer); err != nil {
		return nil, fmt.Errorf("register the metrics: %w", err)
	}
	return r, nil
}

func newRegistry(o Options, modules catalog.Catalog, inForce *middlewareSet, transport http.RoundTripper) (r *Registry, err error) {
	if o.Rehearsal != nil {
		o.Gate, o.Alive = nil, nil // They are for values that hub parts get with their Options.
	}
	r = &Registry{core: &core{
		log: RedactingLogger(o.Log, o.Secrets), hubID: o.HubID, allowHub: o.AllowHub, allowTwin: o.AllowDuplicates,
		hubTransport: transport, hubCache: o.HubCache, shared: o.Shared, middleware: inForce,
		actors: map[ClusterName]*actor.Actor{}, claims: claims{},
	}}
	r.offers.Store(&catalog.Offers{})
	if o.Impersonate {
		r.appsNamespace = o.AppsNamespace
	}
	if r.hubCache == nil {
		r.hubCache = noCache{}
	}
	if r.pulse = o.Monitor.Pulse(); r.pulse == nil {
		r.pulse, r.ownPulse = liveness.NewPulse(), true
	}
	r.remotes = r.newRemotes(o, modules)
	if r.remotes.Apps.Deletes, err = r.newDeletes(o, modules); err != nil {
		return nil, err
	}
	r.hubObjects = r.newHubObjects(o)
	return r, nil
}

// Ensure posts the desired state and returns at once. Only parts that differ change; the latest call wins. It returns an
// *state.InvalidNameError for a name that is no DNS label, or ErrClosed after the shutdown.
func (r *Registry) Ensure(name ClusterName, config state.Desired) error {
	_, err := r.ensure(name, config, false)
	return err
}

// Relabel posts only labels and annotations, for modules and middleware. It returns at once, ErrNotFound for an unknown name.
func (r *Registry) Relabel(name ClusterName, labels, annotations map[string]string) error {
	a, err := r.actor(name)
	if err != nil {
		return err
	}
	a.Relabel(maps.Clone(labels), maps.Clone(annotations))
	return nil
}

func (r *Registry) ensure(name ClusterName, config state.Desired, mustBeNew bool) (*actor.Actor, error) {
	if wrong := validation.IsDNS1123Label(string(name)); len(wrong) > 0 {
		return nil, &state.InvalidNameError{Name: name, Why: wrong[0]}
	}
	config = config.Clone().WithDefaults()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	a := r.actors[name]
	if a != nil && mustBeNew {
		return nil, fmt.Errorf("register %s: %w", name, ErrAlreadyExists)
	}
	if r.allowTwin {
		config.Identity.Rival = ""
	} else if loser := r.actors[r.claims.expect(config.Identity.Known, claim{name, config.Since})]; loser != nil {
		loser.ProbeNow()
	}
	if a != nil {
		a.Want(config)
		return a, nil
	}
	r.keepUp()
	a = actor.New(r.remotes, name, config)
	r.actors[name] = a
	r.running.Go(a.Run)
	return a, nil
}

// Spawn registers a remote and waits until it is Ready. It returns ErrAlreadyExists for a known name, and an
// *state.InvalidNameError as Ensure does. When ctx ends first it returns ctx's error with the reason why the remote is
// not ready; the desired state stays.
func (r *Registry) Spawn(ctx context.Context, name ClusterName, config state.Desired) error {
	a, err := r.ensure(name, config, true)
	if err != nil {
		return err
	}
	return waitReady(ctx, name, a)
}

// WaitReady waits until the remote is Ready. It returns ErrNotFound (unknown, or stopped meanwhile), or ctx's error with why.
func (r *Registry) WaitReady(ctx context.Context, name ClusterName) error {
	a, err := r.actor(name)
	if err != nil {
		return err
	}
	return waitReady(ctx, name, a)
}

func waitReady(ctx context.Context, name ClusterName, a *actor.Actor) error {
	for {
		now := a.Current()
		switch now.Status.State {
		case state.StateReady:
			return nil
		case state.StateStopped:
			return fmt.Errorf("wait for %s: %w", name, ErrNotFound)
		}
		select {
		case <-now.Changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %w", name, context.Cause(ctx), notReady(now.Status))
		}
	}
}

// Stop stops a remote and forgets it. Its app is fenced within microseconds and sends nothing more; then Stop waits for the
// clean-up. It returns ErrNotFound, ErrSuperseded if a later Ensure wants the remote again, or ctx's error if the clean-up
// continues.
func (r *Registry) Stop(ctx context.Context, name ClusterName) error {
	_, err := r.finish(ctx, name, time.Time{})
	return err
}

// Remove stops a remote for good: its controllers end, the modules' cleanup steps run (see CleanupStep), then it is stopped as by
// Stop. The steps have until the deadline of ctx, less StopTimeout for the stop, or half of the time where that is more; without
// a deadline they have removeTimeout. Remove waits as long for an app that is starting. If the remote cannot be used, the steps
// are skipped at once. While Options.Gate is closed, a step that it refused waits for the gate.
//
// It returns nil when everything was done, an *AbandonedError when the cleanup is incomplete, and otherwise the error of Stop. At
// the deadline the error wraps that of ctx and an *AbandonedError with the steps that are not done by then.
func (r *Registry) Remove(ctx context.Context, name ClusterName) error {
	a, err := r.finish(ctx, name, r.removeBy(ctx))
	switch {
	case err == nil:
		r.remotes.Apps.Deletes.Forget(name, a.Current().Status.Owner.UID)
		if left := a.Leftover(); left != nil {
			return abandoned(name, left)
		}
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		if left := a.LeftoverNow(); left != nil {
			return fmt.Errorf("%w: %w", err, abandoned(name, left))
		}
	}
	return err
}

const removeTimeout = 20 * time.Second // removeTimeout is the time for cleanup steps without a deadline.

func (r *Registry) removeBy(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Now().Add(removeTimeout)
	}
	left := time.Until(deadline)
	stop := r.remotes.Apps.Limits.StopTimeout + time.Second // and for the report
	return time.Now().Add(max(left/2, left-stop))
}

// finish returns the actor, also when ctx ends first.
func (r *Registry) finish(ctx context.Context, name ClusterName, removeBy time.Time) (*actor.Actor, error) {
	a, err := r.actor(name)
	if err != nil {
		return nil, err
	}
	overtaken := a.Stop(removeBy)
	select {
	case <-a.Done():
		return a, nil
	case <-overtaken:
		return nil, fmt.Errorf("stop %s: %w", name, ErrSuperseded)
	case <-ctx.Done():
		return a, fmt.Errorf("stop %s: the app is fenced, but its clean-up continues: %w", name, context.Cause(ctx))
	}
}

// Status returns a snapshot of one remote, and whether it is known.
func (r *Registry) Status(name ClusterName) (Status, bool) {
	a, err := r.actor(name)
	if err != nil {
		return Status{}, false
	}
	return r.withHeld(a.Current().Status), true
}

// List returns a snapshot of every remote, sorted by name.
func (r *Registry) List() []Status {
	r.mu.RLock()
	infos := make([]Status, 0, len(r.actors))
	for _, a := range r.actors {
		infos = append(infos, a.Current().Status)
	}
	r.mu.RUnlock()
	for i := range infos {
		infos[i] = r.withHeld(infos[i])
	}
	slices.SortFunc(infos, func(a, b Status) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return infos
}

// Zombies returns how many apps were left behind because they did not end in time.
func (r *Registry) Zombies() int { return int(r.remotes.Zombies.Load()) }

// Shutdown stops all remotes together; later Ensure and Spawn return ErrClosed. It waits for clean-ups, or ctx.
func (r *Registry) Shutdown(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	var actors []*actor.Actor
	for _, a := range r.actors {
		actors = append(actors, a)
	}
	r.mu.Unlock()
	for _, a := range actors {
		a.Stop(time.Time{})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.running.Wait() // also for actors that were stopped before, and still clean up
		r.hubObjects.Close()
		r.remotes.Apps.Registerer.Unregister(r.states)
		r.end()
		r.upkeep.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("shut the registry down: some apps have not cleaned up: %w", context.Cause(ctx))
	}
}

// Start waits for the end of ctx and then shuts the registry down: it is a runnable of the hub's manager.
func (r *Registry) Start(ctx context.Context) error {
	r.mu.Lock()
	if !r.closed {
		r.keepUp()
	}
	r.mu.Unlock()
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*r.remotes.Apps.Limits.StopTimeout)
	defer cancel()
	return r.Shutdown(ctx)
}

// AllowsDuplicates reports whether several remotes may be one cluster; see Options.
func (r *Registry) AllowsDuplicates() bool { return r.allowTwin }

// NeedLeaderElection makes the manager give its lease back after Start has returned.
func (r *Registry) NeedLeaderElection() bool { return true }

func (r *Registry) actor(name ClusterName) (*actor.Actor, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if a := r.actors[name]; a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("%s: %w", name, ErrNotFound)
}

// forget removes an actor unless wanted anew. last comes before the name is free, so before its successor's first event.
func (r *Registry) forget(a *actor.Actor, last func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !a.StopPosted() {
		return false
	}
	name := a.Name()
	delete(r.actors, name)
	r.remotes.Apps.Metrics.Forget(string(name))
	r.claims.drop(name)
	last()
	r.remotes.Secrets.Set(string(name))
	return true
}

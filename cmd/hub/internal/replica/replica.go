// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

// The defaults of Options. DefaultLeaveTimeout has, with DefaultDuration, 10 s for orderly hand-overs and 15 s for the rest.
const (
	DefaultDuration     = 10 * time.Second
	defaultDeadline     = 7 * time.Second
	defaultRetry        = 1500 * time.Millisecond
	defaultForgetAfter  = time.Minute
	DefaultLeaveTimeout = 25 * time.Second
)

// Apps owns the apps of all Clusters. It is called from many goroutines, and never twice at a time for one shard.
type Apps interface {
	// Warm builds the apps of a shard, with a closed gate, and returns nil when their caches are in sync. It may take as long as it
	// needs, but must return soon after ctx ends. After an error Drain follows, or Start, which continues with what Warm has built.
	Warm(ctx context.Context, shard int) error
	// Start lets the apps of a held shard write whenever the gate is open. It builds those that Warm has not, does not wait for
	// them, and must return soon after ctx ends, with the epoch or the life. after is the Lease of the holder before if that has
	// ended without a release, perhaps crashed by an app that it was starting.
	Start(ctx context.Context, shard int, epoch int64, after string)
	// Drain ends the apps of a shard, in whatever state, and returns nil when none of their writes is in flight; no write begins
	// until the next Start. After an error, also of ctx, it is called again, and the shard is not released.
	Drain(ctx context.Context, shard int) error
}

// Options describe a Replica. Config, Namespace, Pod and Runner are required.
type Options struct {
	Config    *rest.Config // Config is without a gate; a Replica makes its own clients.
	Namespace string       // Namespace has all objects of the installation.
	// Pod is the name of the Pod, a DNS label without the prefix clusterfx-shard; elsewhere a name that should be unique.
	Pod     string
	Active  int               // Active is how many replicas may have shards; 0 for all. That of the assigner holds.
	Labels  map[string]string // Labels are for pins, and shown in the Lease. Default: none.
	Version string            // Version is for people, in the Lease. Default: none.
	Tunnel  string            // Tunnel is for other replicas, in the Lease; see Replica.Tunnels. Default: none.
	// Pins returns wanted labels of a shard's replica, about once a second for the assigner. It must not block. Default: none.
	Pins func() shards.Pins
	// Sizes returns how many Clusters each shard has, in memory: those with the most are taken first. Default: none are known.
	Sizes func() []int
	Count int // Count of shards with Clusters, the same for all replicas forever. Default: shards.DefaultCount.
	// Timing is the same for all replicas. Default: 10 s, 7 s and 1.5 s.
	Timing       shards.Timing
	LeaveTimeout time.Duration
	// Alive returns an error while this replica makes no progress and must not claim or renew. It must not block. Default: nil.
	Alive  func() error
	Runner Apps
	// Forget removes what a Pod that has no shard, and of which a Lease is over for ForgetAfter, has left outside of the
	// installation. That Lease is removed after it; after an error, Forget is called again. Default: nothing.
	Forget      func(ctx context.Context, pod string) error
	ForgetAfter time.Duration // ForgetAfter is at least twice Timing.Duration. Default: a minute.
	Log         logr.Logger   // Log gets changes of the state, and failed requests. Default: discards.
}

// Replica is one replica of a hub. It is safe for many goroutines.
type Replica struct {
	options Options
	store   *store
	running atomic.Bool
	life    atomic.Pointer[life] // nil while there is none
}

// New returns a Replica that does not run yet. It sends no request. The error says which option is wrong.
func New(o Options) (*Replica, error) {
	o = withDefaults(o)
	if err := validate(o); err != nil {
		return nil, fmt.Errorf("options of the replica %q: %w", o.Pod, err)
	}
	s, err := newStore(o)
	if err != nil {
		return nil, fmt.Errorf("build the clients of the replica: %w", err)
	}
	return &Replica{options: o, store: s}, nil
}

func withDefaults(o Options) Options {
	o.Count = cmp.Or(o.Count, shards.DefaultCount)
	o.Timing.Duration = cmp.Or(o.Timing.Duration, DefaultDuration)
	o.Timing.Deadline = cmp.Or(o.Timing.Deadline, defaultDeadline)
	o.Timing.Retry = cmp.Or(o.Timing.Retry, defaultRetry)
	o.LeaveTimeout = cmp.Or(o.LeaveTimeout, DefaultLeaveTimeout)
	o.ForgetAfter = cmp.Or(o.ForgetAfter, defaultForgetAfter)
	if o.Alive == nil {
		o.Alive = func() error { return nil }
	}
	if o.Forget == nil {
		o.Forget = func(context.Context, string) error { return nil }
	}
	if o.Pins == nil {
		o.Pins = func() shards.Pins { return nil }
	}
	if o.Sizes == nil {
		o.Sizes = func() []int { return nil }
	}
	o.Log = o.Log.WithValues("replica", o.Pod)
	return o
}

func validate(o Options) error {
	t := o.Timing
	switch {
	case o.Config == nil || o.Runner == nil || o.Namespace == "":
		return errors.New("set Config, Namespace and Runner")
	case !isName(o.Pod):
		return fmt.Errorf("the name of a replica is a DNS label that does not begin with %s; use the name of the Pod", recordPrefix)
	case o.Count < 1 || o.Count > MaxCount:
		return fmt.Errorf("the number of shards is %d; choose one from 1 to %d", o.Count, MaxCount)
	case o.Active < 0 || o.Active > o.Count:
		return fmt.Errorf("the number of active replicas is %d; choose one from 1 to the number of shards, %d, or 0 for all", o.Active, o.Count)
	case t.Retry <= 0 || t.Deadline <= t.Retry || t.Duration <= t.Deadline:
		return fmt.Errorf("retry %s, deadline %s, duration %s: make each longer than the one before", t.Retry, t.Deadline, t.Duration)
	}
	return nil
}

func isName(name string) bool {
	return len(validation.IsDNS1123Label(name)) == 0 && !strings.HasPrefix(name, recordPrefix)
}

// Run takes part in the installation until ctx ends, and then leaves in good order within LeaveTimeout. It fails if the replica does
// not fit the installation, such as with ErrCount, or cannot release all in time; others then wait for its Lease. After Run the gate
// is closed for good, and no call of the Runner in progress. It must be called once.
func (r *Replica) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return errors.New("the replica has been started before; call New for each Run")
	}
	defer r.store.close()
	if err := r.install(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // There is nothing to release.
		}
		return err
	}
	for ctx.Err() == nil {
		if err := r.live(ctx); err != nil {
			return err
		}
	}
	return nil
}

// GateOnce returns the term in which this replica may run what runs once, or matches shards.ErrNotHeld. It does not block.
func (r *Replica) GateOnce() (term int64, err error) { return r.gate(shards.Once) }

// Gate returns the epoch in which this replica may write to a Cluster, or matches shards.ErrNotHeld. It does not block.
func (r *Replica) Gate(uid types.UID) (epoch int64, err error) {
	return r.gate(shards.Of(uid, r.options.Count))
}

// gate reads the clock under the mutex: a time from before a wait would be too early.
func (r *Replica) gate(shard int) (epoch int64, err error) {
	err = shards.ErrNotHeld
	r.read(func(l *life) { epoch, err = l.machine.Gate(shard, present()) })
	return epoch, err
}

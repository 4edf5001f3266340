// SPDX-License-Identifier: Apache-2.0

package mode

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

const (
	// forever is the duration of the lock in Sharded mode: ten years, which no candidate waits.
	forever = 10 * 365 * 24 * time.Hour
	// finalizer keeps the lock in Sharded mode when it is deleted by mistake.
	finalizer = "clusterfx.dev/sharded"
	// annotationWayBack has the identity of the hub in leader mode that releases the lock.
	annotationWayBack = "clusterfx.dev/way-back"
	// installation is the name of the installation in its namespace.
	installation = "clusterfx-sharding"
)

// Options describe the Lease of leader mode, and the installation whose mode changes. All fields are required but Log.
type Options struct {
	// Config is the connection to the hub's API server, without a gate.
	Config *rest.Config
	// Namespace and Name identify the Lease of leader mode.
	Namespace, Name string
	// Installation is the namespace of the installation of Sharded mode.
	Installation string
	// Identity is the name of this process, for people who read the Lease.
	Identity string
	// Duration is how long a Lease of another holder is unchanged before it is acquired, if the Lease does not name a longer
	// time. A third of it is the deadline of each request.
	Duration time.Duration
	// Every is the time between two reads of the Lease.
	Every time.Duration
	// Log receives changes of the state, and failed requests. Default: discards.
	Log logr.Logger
}

// IsSharded reports whether the Lease of leader mode belongs to the installation of Sharded mode in a namespace.
func IsSharded(l *coordinationv1.Lease, installation string) bool {
	return decode(l).holder == Options{Installation: installation}.holder()
}

// holder is the holder of the lock in Sharded mode.
func (o Options) holder() string { return o.Installation + "/" + installation }

func (o Options) decider() decider { return decider{me: o.holder(), duration: o.Duration} }

// store reads and writes the Lease of leader mode.
type store struct {
	options Options
	http    *http.Client
	leases  coordinationv1client.LeaseInterface
}

func newStore(o Options) (*store, error) {
	config := rest.CopyConfig(o.Config)
	config.UserAgent = cmp.Or(config.UserAgent, rest.DefaultKubernetesUserAgent()) + "/mode"
	config.Timeout, config.QPS = o.Duration/3, -1
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: o.Duration / 3, KeepAlive: o.Duration}).DialContext
	}
	// client-go shares transports between clients with the same settings, and compares dialers by their addresses.
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, network, address)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("build the client for the Lease of leader mode: %w", err)
	}
	leases, err := coordinationv1client.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("build the client for the Lease of leader mode: %w", err)
	}
	return &store{options: o, http: client, leases: leases.Leases(o.Namespace)}, nil
}

// close closes the connections on which no request is waiting.
func (s *store) close() { utilnet.CloseIdleConnectionsFor(s.http.Transport) }

// note closes a connection that returned no response in time.
func (s *store) note(err error) {
	if err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		s.close()
	}
}

// name is the name of the Lease with its namespace.
func (s *store) name() string { return s.options.Namespace + "/" + s.options.Name }

// read reads the Lease, consistently; nil if it is missing.
func (s *store) read(ctx context.Context) (*coordinationv1.Lease, error) {
	found, err := s.leases.Get(logr.NewContext(ctx, s.options.Log.V(1)), s.options.Name, metav1.GetOptions{})
	s.note(err)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // A missing Lease is a result.
	}
	if err != nil {
		return nil, fmt.Errorf("read the Lease of leader mode %s: %w", s.name(), err)
	}
	return found, nil
}

// write creates a Lease without a version, and otherwise updates the Lease that still has the version.
func (s *store) write(ctx context.Context, l *coordinationv1.Lease) (err error) {
	ctx = logr.NewContext(ctx, s.options.Log.V(1))
	if l.ResourceVersion == "" {
		_, err = s.leases.Create(ctx, l, metav1.CreateOptions{})
	} else {
		_, err = s.leases.Update(ctx, l, metav1.UpdateOptions{})
	}
	s.note(err)
	if err != nil {
		return fmt.Errorf("write the Lease of leader mode %s: %w", s.name(), err)
	}
	return nil
}

// isConflict reports whether another has written the Lease meanwhile.
func isConflict(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// decode returns what the decisions need of the Lease; nil is a missing one.
func decode(l *coordinationv1.Lease) lock {
	if l == nil {
		return lock{}
	}
	d := lock{exists: true, version: l.ResourceVersion}
	// The API server accepts no finalizer while it deletes the object.
	d.guarded = slices.Contains(l.Finalizers, finalizer) || l.DeletionTimestamp != nil
	_, d.wayBack = l.Annotations[annotationWayBack]
	if l.Spec.HolderIdentity != nil {
		d.holder = *l.Spec.HolderIdentity
	}
	if l.Spec.LeaseDurationSeconds != nil {
		d.duration = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
	}
	return d
}

// acquired returns the Lease with the installation as its holder.
func (o Options) acquired(before *coordinationv1.Lease) *coordinationv1.Lease {
	l := o.changed(before, o.holder(), forever)
	transitions := int32(1)
	if l.Spec.LeaseTransitions != nil {
		transitions += *l.Spec.LeaseTransitions
	}
	l.Spec.LeaseTransitions = &transitions
	delete(l.Annotations, annotationWayBack)
	if !decode(l).guarded {
		l.Finalizers = append(l.Finalizers, finalizer)
	}
	return l
}

// announced returns the Lease on the way back.
func (o Options) announced(before *coordinationv1.Lease) *coordinationv1.Lease {
	l := before.DeepCopy()
	metav1.SetMetaDataAnnotation(&l.ObjectMeta, annotationWayBack, o.Identity)
	return l
}

// released returns the Lease without a holder, as client-go releases it.
func (o Options) released(before *coordinationv1.Lease) *coordinationv1.Lease {
	l := o.changed(before, "", time.Second)
	delete(l.Annotations, annotationWayBack)
	l.Finalizers = slices.DeleteFunc(l.Finalizers, func(one string) bool { return one == finalizer })
	return l
}

func (o Options) changed(before *coordinationv1.Lease, holder string, duration time.Duration) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}}
	if before != nil {
		l = before.DeepCopy()
	}
	now, seconds := metav1.NowMicro(), int32(duration/time.Second)
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &holder, &seconds
	l.Spec.AcquireTime, l.Spec.RenewTime = &now, &now
	return l
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

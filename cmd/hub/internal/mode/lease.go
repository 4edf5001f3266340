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
	forever   = 10 * 365 * 24 * time.Hour // forever is the lock's duration in Sharded mode, which no candidate waits.
	finalizer = "clusterfx.dev/sharded"   // finalizer keeps the lock if it is deleted by mistake.
	// annotationWayBack is the hub in leader mode that releases the lock.
	annotationWayBack = "clusterfx.dev/way-back"
	installation      = "clusterfx-sharding"
)

// Options describe the Lease of leader mode, and the installation. All but Log are required.
type Options struct {
	Config          *rest.Config
	Namespace, Name string
	Installation    string
	Identity        string // Identity is for people.
	// Duration is how long another's Lease, unless it names longer, is unchanged before it is acquired. A third bounds a request.
	Duration time.Duration
	// Every is between two reads.
	Every time.Duration
	Log   logr.Logger
}

// IsSharded reports whether the Lease of leader mode belongs to the installation in a namespace.
func IsSharded(l *coordinationv1.Lease, installation string) bool {
	return decode(l).holder == Options{Installation: installation}.holder()
}

func (o Options) holder() string { return o.Installation + "/" + installation }

func (o Options) decider() decider { return decider{me: o.holder(), duration: o.Duration} }

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
	// client-go shares transports between clients of the same settings, and compares dialers by address.
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

func (s *store) close() { utilnet.CloseIdleConnectionsFor(s.http.Transport) }

// note closes a connection without a response in time.
func (s *store) note(err error) {
	if err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		s.close()
	}
}

func (s *store) name() string { return s.options.Namespace + "/" + s.options.Name }

// read is consistent, and nil if there is none.
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

// write creates a Lease without a version, and else updates that version.
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

func isConflict(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// decode takes nil for a missing one.
func decode(l *coordinationv1.Lease) lock {
	if l == nil {
		return lock{}
	}
	d := lock{exists: true, version: l.ResourceVersion}
	// The API server accepts no finalizer while it deletes.
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

// announced is on the way back.
func (o Options) announced(before *coordinationv1.Lease) *coordinationv1.Lease {
	l := before.DeepCopy()
	metav1.SetMetaDataAnnotation(&l.ObjectMeta, annotationWayBack, o.Identity)
	return l
}

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

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

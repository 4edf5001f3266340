// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errOver is the error of the lock for an election that continues after the end.
var errOver = errors.New("this candidacy is over")

type watchedLock struct {
	resourcelock.Interface
	candidacy *Candidacy
	http      *http.Client
	alive     func() error
}

var _ resourcelock.Interface = (*watchedLock)(nil)

func newLock(o Options, c *Candidacy) (*watchedLock, error) {
	config := rest.CopyConfig(o.Config)
	config.UserAgent = cmp.Or(config.UserAgent, rest.DefaultKubernetesUserAgent()) + "/leader-election"
	config.Timeout = o.RenewDeadline / 2
	config.QPS = -1
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	// client-go shares a transport between clients of the same settings; a dialer of its own makes this one private.
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, network, address)
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	leases, err := coordinationv1client.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	alive := o.Alive
	if alive == nil {
		alive = func() error { return nil }
	}
	return &watchedLock{candidacy: c, http: httpClient, alive: alive, Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name},
		Client:     leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
	}}, nil
}

// Another name in the lease, after this hub's was, is the end of the candidacy.
func (l *watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	held := l.candidacy.isHeld()
	record, raw, err := l.Interface.Get(ctx)
	l.note(err)
	if err == nil && held && record.HolderIdentity != l.Identity() {
		l.candidacy.end()
		return nil, nil, fmt.Errorf("%w: the lease is held by %q", errOver, record.HolderIdentity)
	}
	return record, raw, err
}

func (l *watchedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

func (l *watchedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

func (l *watchedLock) write(
	ctx context.Context, record resourcelock.LeaderElectionRecord,
	send func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	if l.candidacy.over.Load() {
		return errOver
	}
	if err := l.alive(); err != nil {
		return fmt.Errorf("the lease is not renewed: %w", err)
	}
	begin := present()
	err := send(ctx, record)
	l.note(err)
	if err == nil {
		l.candidacy.renew(begin)
	}
	return err
}

// giveBack repeats: a renewal that was cut off may arrive in between.
func (l *watchedLock) giveBack(ctx context.Context) error {
	for {
		record, _, err := l.Interface.Get(ctx)
		if err != nil || record.HolderIdentity != l.Identity() {
			return client.IgnoreNotFound(err)
		}
		now := metav1.Now()
		err = l.Interface.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
		})
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

// note closes a connection without a response in time.
func (l *watchedLock) note(err error) {
	if err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		l.close()
	}
}

func (l *watchedLock) close() { utilnet.CloseIdleConnectionsFor(l.http.Transport) }

// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// errConflict: a compare-and-swap found another version, no object, or one that it should create.
var errConflict = errors.New("the object has been modified")

type store struct {
	timeout                   time.Duration
	log                       logr.Logger // of client-go
	renewals, others, watches *connection
}

func newStore(o Options) (*store, error) {
	s := &store{timeout: o.Timing.Deadline / 2, log: o.Log.V(1)}
	for _, c := range []**connection{&s.renewals, &s.others, &s.watches} {
		var err error
		if *c, err = connect(o); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *store) close() {
	for _, c := range []*connection{s.renewals, s.others, s.watches} {
		c.close()
	}
}

// connection shares its transport with no other client.
type connection struct {
	http   *http.Client
	leases coordinationv1client.LeaseInterface
	maps   corev1client.ConfigMapInterface
}

func connect(o Options) (*connection, error) {
	config := rest.CopyConfig(o.Config)
	config.UserAgent = cmp.Or(config.UserAgent, rest.DefaultKubernetesUserAgent()) + "/replica"
	config.Timeout, config.QPS = 0, -1 // Each request has a deadline, and the number of requests has a limit.
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: o.Timing.Deadline / 2, KeepAlive: o.Timing.Deadline}).DialContext
	}
	// client-go shares transports between clients of the same settings, and compares dialers by address.
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, network, address)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	leases, err := coordinationv1client.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	core, err := corev1client.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	return &connection{http: client, leases: leases.Leases(o.Namespace), maps: core.ConfigMaps(o.Namespace)}, nil
}

func (c *connection) close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// do drops a connection without a response in time.
func (s *store) do(ctx context.Context, c *connection, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(logr.NewContext(ctx, s.log), s.timeout)
	defer cancel()
	err := request(ctx)
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %w", errConflict, err)
	case err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		c.close()
	}
	return err
}

// getLease is consistent, and returns nil for none.
func (s *store) getLease(ctx context.Context, c *connection, name string) (found *coordinationv1.Lease, err error) {
	err = s.do(ctx, c, func(ctx context.Context) (err error) {
		found, err = c.leases.Get(ctx, name, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // a missing Lease is a result of the protocol
	}
	if err != nil {
		return nil, fmt.Errorf("read the Lease %s: %w", name, err)
	}
	return found, nil
}

// errConflict if it exists.
func (s *store) createLease(ctx context.Context, c *connection, l *coordinationv1.Lease) (created *coordinationv1.Lease, err error) {
	err = s.do(ctx, c, func(ctx context.Context) (err error) {
		created, err = c.leases.Create(ctx, l, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create the Lease %s: %w", l.Name, err)
	}
	return created, nil
}

// errConflict if it does not have the version in the patch.
func (s *store) swapLease(ctx context.Context, c *connection, name string, change patch) (changed *coordinationv1.Lease, err error) {
	data, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("encode a change of the Lease %s: %w", name, err)
	}
	err = s.do(ctx, c, func(ctx context.Context) (err error) {
		changed, err = c.leases.Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		err = fmt.Errorf("%w: %w", errConflict, err)
	}
	if err != nil {
		return nil, fmt.Errorf("change the Lease %s: %w", name, err)
	}
	return changed, nil
}

// errConflict for another version.
func (s *store) removeLease(ctx context.Context, name, version string) error {
	err := s.do(ctx, s.others, func(ctx context.Context) error {
		return s.others.leases.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the Lease %s: %w", name, err)
	}
	return nil
}

// getMap may return nil.
func (s *store) getMap(ctx context.Context, name string) (found *corev1.ConfigMap, err error) {
	err = s.do(ctx, s.others, func(ctx context.Context) (err error) {
		found, err = s.others.maps.Get(ctx, name, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // a missing object is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("read the ConfigMap %s: %w", name, err)
	}
	return found, nil
}

// putMap creates, or replaces the data of a version; errConflict for another.
func (s *store) putMap(ctx context.Context, m *corev1.ConfigMap, version string) (written *corev1.ConfigMap, err error) {
	data, err := json.Marshal(patch{fieldMetadata: map[string]any{fieldVersion: version}, "data": m.Data})
	if err != nil {
		return nil, fmt.Errorf("encode the ConfigMap %s: %w", m.Name, err)
	}
	err = s.do(ctx, s.others, func(ctx context.Context) (err error) {
		if version == "" {
			written, err = s.others.maps.Create(ctx, m, metav1.CreateOptions{})
		} else {
			written, err = s.others.maps.Patch(ctx, m.Name, types.MergePatchType, data, metav1.PatchOptions{})
		}
		return err
	})
	if apierrors.IsNotFound(err) && version != "" {
		err = fmt.Errorf("%w: %w", errConflict, err)
	}
	if err != nil {
		return nil, fmt.Errorf("write the ConfigMap %s: %w", m.Name, err)
	}
	return written, nil
}

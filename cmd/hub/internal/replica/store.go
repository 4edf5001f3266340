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
	"k8s.io/client-go/kubernetes"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errConflict: a compare-and-swap found another version, no object, or one that it should create.
var errConflict = errors.New("the object has been modified")

// store has connections that do not wait for each other.
type store struct{ renewals, others, watches *connection }

func newStore(o Options) (*store, error) {
	s := &store{}
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
	http    *http.Client
	kube    kubernetes.Interface
	leases  coordinationv1client.LeaseInterface
	maps    corev1client.ConfigMapInterface
	timeout time.Duration
	log     logr.Logger // of client-go
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
	c := &connection{timeout: o.Timing.Deadline / 2, log: o.Log.V(1)}
	var err error
	if c.http, err = rest.HTTPClientFor(config); err != nil {
		return nil, err
	}
	if c.kube, err = kubernetes.NewForConfigAndClient(config, c.http); err != nil {
		return nil, err
	}
	c.leases, c.maps = c.kube.CoordinationV1().Leases(o.Namespace), c.kube.CoreV1().ConfigMaps(o.Namespace)
	return c, nil
}

func (c *connection) close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// call drops a connection without a response in time.
func call[T any](ctx context.Context, c *connection, what string, request func(context.Context) (*T, error)) (*T, error) {
	ctx, cancel := context.WithTimeout(logr.NewContext(ctx, c.log), c.timeout)
	defer cancel()
	result, err := request(ctx)
	switch {
	case err == nil:
		return result, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		err = fmt.Errorf("%w: %w", errConflict, err)
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		c.close()
	}
	return nil, fmt.Errorf("%s: %w", what, err)
}

// orNone returns nil for an object that is missing, which is a result of the protocol.
func orNone[T any](found *T, err error) (*T, error) {
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return found, err
}

// orConflict: an object that is missing does not have the version.
func orConflict[T any](changed *T, err error) (*T, error) {
	if apierrors.IsNotFound(err) {
		err = fmt.Errorf("%w: %w", errConflict, err)
	}
	return changed, err
}

// getLease is consistent, and returns nil for none.
func (c *connection) getLease(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	return orNone(call(ctx, c, "read the Lease "+name, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return c.leases.Get(ctx, name, metav1.GetOptions{})
	}))
}

// createLease returns errConflict if it exists.
func (c *connection) createLease(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return call(ctx, c, "create the Lease "+l.Name, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return c.leases.Create(ctx, l, metav1.CreateOptions{})
	})
}

// swapLease writes what differs, or returns errConflict if the Lease has another version than before.
func (c *connection) swapLease(ctx context.Context, before, after *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	change, err := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}).Data(after)
	if err != nil {
		return nil, fmt.Errorf("encode a change of the Lease %s: %w", before.Name, err)
	}
	return orConflict(call(ctx, c, "change the Lease "+before.Name, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return c.leases.Patch(ctx, before.Name, types.MergePatchType, change, metav1.PatchOptions{})
	}))
}

// removeLease returns errConflict for another version, or none.
func (c *connection) removeLease(ctx context.Context, name, version string) error {
	_, err := orConflict(call(ctx, c, "delete the Lease "+name, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return nil, c.leases.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
	}))
	return err
}

// getMap may return nil.
func (c *connection) getMap(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	return orNone(call(ctx, c, "read the ConfigMap "+name, func(ctx context.Context) (*corev1.ConfigMap, error) {
		return c.maps.Get(ctx, name, metav1.GetOptions{})
	}))
}

// putMap creates, or changes the data of a version; errConflict for another.
func (c *connection) putMap(ctx context.Context, m *corev1.ConfigMap, version string) (*corev1.ConfigMap, error) {
	what := "write the ConfigMap " + m.Name
	if version == "" {
		return call(ctx, c, what, func(ctx context.Context) (*corev1.ConfigMap, error) {
			return c.maps.Create(ctx, m, metav1.CreateOptions{})
		})
	}
	change, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version}, "data": m.Data})
	if err != nil {
		return nil, fmt.Errorf("encode the ConfigMap %s: %w", m.Name, err)
	}
	return orConflict(call(ctx, c, what, func(ctx context.Context) (*corev1.ConfigMap, error) {
		return c.maps.Patch(ctx, m.Name, types.MergePatchType, change, metav1.PatchOptions{})
	}))
}

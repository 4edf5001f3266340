// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/serving"
	"github.com/clusterfx/clusterfx/internal/tunnel"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// tunnels are the hub's tunnels: the listener, its key, and which key is that of which Cluster.
type tunnels struct {
	o        Options
	hub      *tunnel.Hub
	listener net.Listener
	key      atomic.Pointer[hubKey]
	open     chan struct{} // closed when the caches are filled

	mgr      ctrl.Manager             // set by attach
	replicas func() map[string]string // the addresses of the others' listeners

	watch.Requests // for Clusters whose tunnel has changed
}

type hubKey struct {
	key tunnel.Key
	err error
}

// newTunnels takes the address. It returns nil without one. The caller must call run.
func newTunnels(ctx context.Context, o Options) (*tunnels, error) {
	if o.TunnelAddress == serving.Nowhere {
		return nil, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.TunnelAddress)
	if err != nil {
		return nil, fmt.Errorf("serve agents: %w", err)
	}
	t := &tunnels{o: o, listener: l, open: make(chan struct{}), replicas: func() map[string]string { return nil }}
	t.key.Store(&hubKey{err: errors.New("the key has not been read yet")})
	t.hub = tunnel.NewHub(ctx, tunnel.HubOptions{
		Key: func() (tunnel.Key, error) {
			now := t.key.Load()
			return now.key, now.err
		},
		Owner: t.owner, Explain: t.explain, Changed: func(remote string) { t.Add(remote, 0) }, Replica: o.Registry.Replica,
		Peers: func() map[string]string { return t.replicas() }, Log: o.Log.WithName("tunnel"),
	})
	return t, nil
}

func (t *tunnels) option() fx.Option {
	if t == nil {
		return fx.Options()
	}
	return fx.Options(
		fx.Provide(func() cluster.Tunnels { return t }),
		fx.Invoke(t.attach),
	)
}

// advertised is for the Lease of this replica: the address of the listener for the others. Without a host of its own, it is the address
// from which this process reaches its API server, which the kernel knows without a packet.
func (t *tunnels) advertised(ctx context.Context) string {
	if t == nil {
		return ""
	}
	own, _ := t.listener.Addr().(*net.TCPAddr)
	if own == nil || !own.IP.IsUnspecified() {
		return t.listener.Addr().String()
	}
	server := t.o.Config.Host
	if u, err := url.Parse(server); err == nil && u.Host != "" {
		server = u.Hostname()
	}
	host := "127.0.0.1"
	if conn, err := (&net.Dialer{Timeout: keyReadTimeout}).DialContext(ctx, "udp", net.JoinHostPort(server, "443")); err == nil {
		host, _, _ = net.SplitHostPort(conn.LocalAddr().String())
		_ = conn.Close()
	}
	return net.JoinHostPort(host, strconv.Itoa(own.Port))
}

func (t *tunnels) close() {
	if t != nil {
		_ = t.listener.Close()
		t.hub.Close()
	}
}

const keyIndex = "tunnelKey"

func secretMetadata() *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return m
}

func (t *tunnels) attach(mgr ctrl.Manager, metrics prometheus.Registerer) error {
	t.mgr = mgr
	err := mgr.GetCache().IndexField(t.o.Registry.Root, secretMetadata(), keyIndex, func(o client.Object) []string {
		_, keys := keysOf(o)
		return keys
	})
	if err != nil {
		return fmt.Errorf("index the keys of agents: %w", err)
	}
	if err := t.hub.RegisterMetrics(metrics); err != nil {
		return fmt.Errorf("register the metrics of tunnels: %w", err)
	}
	return mgr.Add(manager.RunnableFunc(func(context.Context) error {
		close(t.open)
		return nil
	}))
}

// keysOf returns whose keys a Secret names, as the name and the UID of a Cluster, and the keys.
func keysOf(secret client.Object) (owner string, keys []string) {
	words := strings.Fields(secret.GetAnnotations()[hubv1.AnnotationTunnelKeys])
	if len(words) == 0 {
		return "", nil
	}
	return words[0], slices.DeleteFunc(words[1:], func(key string) bool { return !tunnel.IsFingerprint(key) })
}

// run serves agents from when the caches are filled until ctx ends.
func (t *tunnels) run(ctx context.Context) {
	defer t.close()
	select {
	case <-t.open:
	case <-ctx.Done():
		return
	}
	var reading sync.WaitGroup
	defer reading.Wait()
	reading.Go(func() { t.readKeys(ctx) })
	if err := t.hub.Serve(ctx, t.listener); err != nil {
		t.o.Log.Error(err, "The listener for agents ended by itself")
	}
}

const (
	keyReadEvery   = 20 * time.Second
	keyReadTimeout = 10 * time.Second
)

func (t *tunnels) readKeys(ctx context.Context) {
	for ctx.Err() == nil {
		every := keyReadEvery
		if key, err := t.readKey(ctx); err == nil || t.key.Load().err != nil {
			t.key.Store(&hubKey{key, err})
		}
		if t.key.Load().err != nil {
			every /= 10
		}
		replica.Pause(ctx, every)
	}
}

func (t *tunnels) readKey(ctx context.Context) (tunnel.Key, error) {
	ctx, cancel := context.WithTimeout(ctx, keyReadTimeout)
	defer cancel()
	var secret corev1.Secret
	name := client.ObjectKey{Namespace: t.o.CredentialsNamespace, Name: hubv1.TunnelSecretName}
	if err := t.mgr.GetAPIReader().Get(ctx, name, &secret); err != nil {
		return tunnel.Key{}, fmt.Errorf("read the key of the hub; hub register --tunnel makes it: %w", err)
	}
	key, err := tunnel.ParseKey(secret.Data[hubv1.TunnelSecretKey])
	if err != nil {
		return tunnel.Key{}, fmt.Errorf("read the key of the hub from Secret %s: %w", name, err)
	}
	return key, nil
}

// owner reads caches only.
func (t *tunnels) owner(ctx context.Context, key string) string {
	secrets, err := t.secretsWith(ctx, key)
	if err != nil || len(secrets) != 1 {
		return ""
	}
	owner, _ := keysOf(&secrets[0])
	name, uid, _ := strings.Cut(owner, "/")
	var c hubv1.Cluster
	if err := t.mgr.GetCache().Get(ctx, client.ObjectKey{Name: name}, &c); err != nil {
		return ""
	}
	if string(c.UID) != uid || c.Spec.Via != hubv1.ViaTunnel || c.Spec.KubeconfigSecretRef.Name != secrets[0].Name {
		return ""
	}
	return name
}

func (t *tunnels) secretsWith(ctx context.Context, key string) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := t.mgr.GetCache().List(ctx, list, client.MatchingFields{keyIndex: key}, client.InNamespace(t.o.CredentialsNamespace), client.UnsafeDisableDeepCopy)
	return list.Items, err
}

// explain says why no agent can connect for a Cluster, or nothing.
func (t *tunnels) explain(ctx context.Context, name string) string {
	var c hubv1.Cluster
	if err := t.mgr.GetCache().Get(ctx, client.ObjectKey{Name: name}, &c); err != nil {
		return ""
	}
	secret := secretMetadata()
	key := client.ObjectKey{Namespace: t.o.CredentialsNamespace, Name: c.Spec.KubeconfigSecretRef.Name}
	if err := t.mgr.GetCache().Get(ctx, key, secret); err != nil {
		return ""
	}
	owner, keys := keysOf(secret)
	const accept = "run hub accept "
	switch {
	case len(keys) == 0:
		return "no key of an agent is accepted; " + accept + name + " with the fingerprint that the agent logs"
	case owner != name+"/"+string(c.UID):
		return "the key in Secret " + secret.Name + " was accepted for another Cluster; " + accept + name + " with the fingerprint that the agent logs"
	}
	for _, one := range keys {
		secrets, err := t.secretsWith(ctx, one)
		if err == nil && len(secrets) > 1 {
			return "the key " + one + " is accepted for two Clusters, in the Secrets " + secrets[0].Name + " and " + secrets[1].Name +
				", so that it serves neither; give each agent a key of its own"
		}
	}
	return ""
}

// Status is of cluster.Tunnels.
func (t *tunnels) Status(c *hubv1.Cluster) hubv1.TunnelStatus {
	state, before := t.hub.State(c.Name), c.Status.Tunnel
	if state.Connected {
		return hubv1.TunnelStatus{
			Replica: t.o.Registry.Replica, AgentVersion: state.Version, KeyFingerprint: state.Key,
			ConnectedTime: metav1.NewTime(state.Since.Truncate(time.Second)),
		}
	}
	now := hubv1.TunnelStatus{AgentVersion: before.AgentVersion, KeyFingerprint: before.KeyFingerprint, LastSeenTime: before.LastSeenTime}
	if !state.Seen.IsZero() {
		now.LastSeenTime = metav1.NewTime(state.Seen.Truncate(time.Second))
	}
	return now
}

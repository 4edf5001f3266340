// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry/state"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// record is a reconciler that records its requests. It calls do, if that is set.
type record struct {
	do func(context.Context, watch.Request) error

	mu   sync.Mutex // protects seen
	seen map[watch.Request]int
}

func (r *record) Reconcile(ctx context.Context, request watch.Request) (ctrl.Result, error) {
	r.mu.Lock()
	if r.seen == nil {
		r.seen = map[watch.Request]int{}
	}
	r.seen[request]++
	r.mu.Unlock()
	if r.do != nil {
		return ctrl.Result{}, r.do(ctx, request)
	}
	return ctrl.Result{}, nil
}

func (r *record) count(request watch.Request) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[request]
}

// expect waits until a request has been reconciled more than moreThan times.
func (r *record) expect(t *testing.T, request watch.Request, moreThan int) {
	t.Helper()
	eventually(t, func() error {
		if got := r.count(request); got <= moreThan {
			return fmt.Errorf("got %s %d times, want more than %d", request, got, moreThan)
		}
		return nil
	})
}

// ofTest drops the objects of other tests, which share the clusters.
func ofTest(t *testing.T) []predicate.TypedPredicate[client.Object] {
	t.Helper()
	name := t.Name()
	return []predicate.TypedPredicate[client.Object]{predicate.NewTypedPredicateFuncs(func(o client.Object) bool {
		return o.GetAnnotations()["test"] == name
	})}
}

// newConfigMap returns a ConfigMap of the test, which does not exist yet.
func newConfigMap(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "watched-", Namespace: metav1.NamespaceDefault, Annotations: map[string]string{"test": t.Name()},
	}}
}

func create(t *testing.T, c *fleet.Cluster, one *corev1.ConfigMap) types.NamespacedName {
	t.Helper()
	must(t, clientFor(t, c).Create(t.Context(), one))
	return client.ObjectKeyFromObject(one)
}

func remove(t *testing.T, c *fleet.Cluster, key types.NamespacedName) {
	t.Helper()
	gone := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	must(t, clientFor(t, c).Delete(t.Context(), gone))
}

func in(name state.ClusterName, key types.NamespacedName) watch.Request {
	return watch.Request{Cluster: name, NamespacedName: key}
}

// watching sets up a controller that records the requests for a kind.
func watching(r *record, o watch.Options[client.Object], kind client.Object) func(*hub) error {
	return func(h *hub) error {
		return watch.ControllerManagedBy(h, h.remotes).Named("test").WatchesRemote(kind, o).Complete(r)
	}
}

func TestRemotes(t *testing.T) {
	t.Parallel()
	metadata := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	for name, kind := range map[string]client.Object{"typed": &corev1.ConfigMap{}, "metadata": metadata} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, two := fleettest.Cluster(t, "one"), fleettest.Cluster(t, "two")
			early := create(t, one, newConfigMap(t))
			var r record
			h := newHub(t, watching(&r, watch.Options[client.Object]{Predicates: ofTest(t)}, kind))
			h.register(t, "one", one)
			r.expect(t, in("one", early), 0)
			h.register(t, "two", two)
			late := create(t, two, newConfigMap(t))
			r.expect(t, in("two", late), 0)
			for before, key := range map[state.ClusterName]types.NamespacedName{"one": early, "two": late} {
				c := map[state.ClusterName]*fleet.Cluster{"one": one, "two": two}[before]
				n := r.count(in(before, key))
				remove(t, c, key)
				r.expect(t, in(before, key), n)
			}
			if got := r.count(in("two", early)) + r.count(in("one", late)); got > 0 {
				t.Errorf("got %d requests with the wrong remote, want 0", got)
			}
		})
	}
}

// Remotes that do not respond from the beginning prevent neither the start of the controller nor the watches of other remotes.
func TestRemotes_SilentOnes(t *testing.T) {
	t.Parallel()
	const remotes, silent = 6, 2
	one := fleettest.Cluster(t, "one")
	key := create(t, one, newConfigMap(t))
	proxy, behind := behindProxy(t, one)
	must(t, proxy.Set(fault.Blackhole()))
	var r record
	h := newHub(t, watching(&r, watch.Options[client.Object]{Predicates: ofTest(t)}, &corev1.ConfigMap{}))
	began := time.Now()
	for i := range remotes {
		name := state.ClusterName(fmt.Sprint("remote-", i))
		config := configFor(t, one.Kubeconfig())
		if i < silent {
			config = behind
		}
		must(t, h.remotes.Ensure(name, config))
	}
	for i := range remotes - silent {
		r.expect(t, in(state.ClusterName(fmt.Sprint("remote-", silent+i)), key), 0)
	}
	t.Logf("%d of %d remotes were watched after %s", remotes-silent, remotes, time.Since(began))
}

// behindProxy returns a proxy of a cluster, and the configuration of a remote behind it whose outage is noticed soon.
func behindProxy(t *testing.T, c *fleet.Cluster) (*fault.Proxy, state.Desired) {
	t.Helper()
	p, behind := fleettest.ProxyTo(t, c)
	config := configFor(t, behind)
	config.Probe = state.Probe{Period: 200 * time.Millisecond, Timeout: time.Second, FailureThreshold: 1}
	return p, config
}

// When a remote is back, its objects make requests again, and so do objects that were deleted meanwhile.
func TestRemotes_ComesBack(t *testing.T) {
	t.Parallel()
	one := fleettest.Cluster(t, "one")
	stays, goes := create(t, one, newConfigMap(t)), create(t, one, newConfigMap(t))
	proxy, config := behindProxy(t, one)
	r := record{}
	h := newHub(t, watching(&r, watch.Options[client.Object]{Predicates: ofTest(t), TellLost: true}, &corev1.ConfigMap{}))
	must(t, h.remotes.Ensure("one", config))
	r.expect(t, in("one", stays), 0)
	r.expect(t, in("one", goes), 0)
	before := map[types.NamespacedName]int{stays: r.count(in("one", stays)), goes: r.count(in("one", goes))}

	must(t, proxy.Set(fault.Refuse()))
	h.expectState(t, "one", state.StateUnreachable)
	remove(t, one, goes)
	comes := create(t, one, newConfigMap(t))
	must(t, proxy.Set(fault.Pass()))
	r.expect(t, in("one", stays), before[stays])
	r.expect(t, in("one", goes), before[goes])
	r.expect(t, in("one", comes), 0)
	if got := r.count(watch.Request{Cluster: "one", Lost: true}); got > 0 {
		t.Errorf("got %d requests with Lost of a remote that was only unreachable, want 0", got)
	}
}

func (h *hub) expectState(t *testing.T, name state.ClusterName, want state.State) {
	t.Helper()
	eventually(t, func() error {
		if info, _ := h.remotes.Status(name); info.State != want {
			return fmt.Errorf("%s is %s: %s", name, info.State, info.Message)
		}
		return nil
	})
}

// A request that is due when a remote becomes unreachable is reconciled when the remote is back, also for an object
// that was deleted and is not in the new list.
func TestRemotes_KeepsRequestsForTheReturn(t *testing.T) {
	t.Parallel()
	one := fleettest.Cluster(t, "one")
	key := create(t, one, newConfigMap(t))
	proxy, config := behindProxy(t, one)
	var failing atomic.Bool
	r := record{do: func(_ context.Context, request watch.Request) error {
		if failing.Load() && request.NamespacedName == key {
			return errors.New("boom") // like a call of a remote that becomes unreachable
		}
		return nil
	}}
	h := newHub(t, watching(&r, watch.Options[client.Object]{Predicates: ofTest(t)}, &corev1.ConfigMap{}))
	must(t, h.remotes.Ensure("one", config))
	r.expect(t, in("one", key), 0)
	failing.Store(true)
	before := r.count(in("one", key))
	remove(t, one, key)
	r.expect(t, in("one", key), before+1) // its deletion, which is retried
	must(t, proxy.Set(fault.Refuse()))
	h.expectState(t, "one", state.StateUnreachable)
	away := r.count(in("one", key))
	failing.Store(false)
	must(t, proxy.Set(fault.Pass()))
	r.expect(t, in("one", key), away)
}

// A remote that is stopped, or no longer selected, is lost. Requests for its objects no longer reach the reconciler,
// and its errors are not retried.
func TestRemotes_Lost(t *testing.T) {
	t.Parallel()
	one := fleettest.Cluster(t, "one")
	key := create(t, one, newConfigMap(t))
	r := record{do: func(_ context.Context, r watch.Request) error {
		if !r.Lost {
			return errors.New("boom")
		}
		return nil
	}}
	h := newHub(t, watching(&r, watch.Options[client.Object]{
		Predicates: ofTest(t), TellLost: true,
		Select: func(info state.Status) bool { return info.Labels["watch"] != "no" },
	}, &corev1.ConfigMap{}))
	h.register(t, "leaves", one)
	h.register(t, "changes", one)
	r.expect(t, in("leaves", key), 1)
	r.expect(t, in("changes", key), 1)

	must(t, h.remotes.Stop(t.Context(), "leaves"))
	config := configFor(t, one.Kubeconfig())
	config.Labels = map[string]string{"watch": "no"}
	must(t, h.remotes.Ensure("changes", config))
	r.expect(t, watch.Request{Cluster: "leaves", Lost: true}, 0)
	r.expect(t, watch.Request{Cluster: "changes", Lost: true}, 0)
	h.register(t, "changes", one)
	r.expect(t, in("changes", key), r.count(in("changes", key)))

	after := r.count(in("leaves", key))
	marker := create(t, one, newConfigMap(t))
	r.expect(t, in("changes", marker), 3) // With backoff, this takes longer than a retry for the lost remote would.
	if got := r.count(in("leaves", key)); got > after {
		t.Errorf("got %d requests for a lost remote, want 0", got-after)
	}
}

// An index exists when the reconciler gets its first request for a remote, also if several controllers add the same index.
func TestRemotes_Indexes(t *testing.T) {
	t.Parallel()
	one := fleettest.Cluster(t, "one")
	const field = "test-name"
	var r record
	index := []watch.Index{{Field: field, Extract: func(o client.Object) []string { return []string{o.GetAnnotations()["test"]} }}}
	options := watch.Options[client.Object]{Predicates: ofTest(t), Indexes: index}
	h := newHub(t, func(h *hub) error {
		r.do = func(ctx context.Context, request watch.Request) error {
			return h.remotes.WithClient(ctx, request.Cluster, func(ctx context.Context, remote client.Client) error {
				var found corev1.ConfigMapList
				err := remote.List(ctx, &found, client.MatchingFields{field: t.Name()})
				if err == nil && len(found.Items) == 0 {
					err = errors.New("the object is not in the index")
				}
				if err != nil && ctx.Err() == nil { // ctx ends with the test
					t.Errorf("%s: %v", request, err)
				}
				return nil
			})
		}
		return errors.Join(
			watch.ControllerManagedBy(h, h.remotes).Named("first").WatchesRemote(&corev1.ConfigMap{}, options).Complete(&r),
			watch.ControllerManagedBy(h, h.remotes).Named("second").WatchesRemote(&corev1.ConfigMap{}, options).Complete(&r),
		)
	})
	key := create(t, one, newConfigMap(t))
	for i := range 5 {
		name := state.ClusterName(fmt.Sprint("remote-", i))
		h.register(t, name, one)
		r.expect(t, in(name, key), 1)
	}
}

// SPDX-License-Identifier: Apache-2.0

package objectsync_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

var errKilled = errors.New("the hub was killed")

// blade ends a hub after one of its writes of a rule or an object, in the hub or in the remote: that one is done, no answer comes back, and
// nothing else is sent.
type blade struct {
	left   atomic.Int64 // writes
	fallen atomic.Bool

	mu   sync.Mutex
	seen []string // since the last fall
}

func (b *blade) wrap(next http.RoundTripper) http.RoundTripper {
	return testkit.RoundTrip(func(r *http.Request) (*http.Response, error) {
		if b.fallen.Load() {
			return nil, errKilled
		}
		response, err := next.RoundTrip(r)
		isWrite := r.Method != http.MethodGet && !strings.Contains(r.URL.Path, hubv1.DefaultNamespace) &&
			(strings.Contains(r.URL.Path, "/configmaps") || strings.Contains(r.URL.Path, "/syncrules/") && !strings.HasSuffix(r.URL.Path, "/status"))
		if isWrite {
			b.note(fmt.Sprint(r.Method, " ", r.URL.Path))
			b.fallen.CompareAndSwap(false, b.left.Add(-1) == 0)
		}
		if b.fallen.Load() && err == nil {
			_ = response.Body.Close()
			return nil, errKilled
		}
		return response, err
	})
}

// module has the blade in the way of apps to their remotes.
func (b *blade) module() registry.Module {
	return registry.NewModule("blade", registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: registry.WithMiddleware(registry.Middleware{
		Name: "blade", Transport: func(_ registry.ClusterName, next http.RoundTripper) http.RoundTripper { return b.wrap(next) },
	})})
}

func (b *blade) note(write string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = append(b.seen, write)
}

func (b *blade) set(left int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = nil
	b.left.Store(left)
}

const killed = `
orders: {from: Hub, kind: {apiVersion: v1, kind: ConfigMap}, namespaces: {template: "tenant-{{cluster}}"}, to: {naming: Mirror, namespace: even}}
reports: {from: Remote, kind: {apiVersion: v1, kind: ConfigMap}, namespaces: {names: [reports]}, to: {naming: Mirror, namespace: even}}
`

// Promise: the hub is killed at each write, in both directions: no copy is lost, and none is left.
func TestEngine_KilledAtEachWrite(t *testing.T) {
	t.Parallel()
	fleettest.Slow(t, "./modules/objectsync TestEngine_Moves")
	b := &blade{}
	all := rulesOf(t, killed)
	hub := restrictedHub(t, "{}", remoteRules(t, all...), hubtest.Modules(b.module()),
		hubtest.Requests(b.wrap))
	grantInHub(t, hub, all...)
	for _, one := range all { // The hub may read two namespaces, and not all.
		one := one.DeepCopy()
		one.Name, one.Spec.To.Namespace = one.Name+"-odd", "odd"
		grantInHub(t, hub, one)
	}
	a := hub.Remote("a")
	for _, name := range []string{"even", "odd", "reports"} {
		a.Create(namespace(name, nil))
	}
	ensureNamespace(t, hub, "tenant-a")
	hub.Create(configMap("tenant-a", "stays", nil), configMap("tenant-a", "order-0", nil))
	a.Create(configMap("reports", "stays", nil), configMap("reports", "report-0", nil))
	create(hub, all)
	has := func(n int64) error {
		to, from := "even", "odd"
		if n%2 == 1 {
			to, from = from, to
		}
		return errors.Join(
			copied(t, &a.Server, to, "stays", fmt.Sprint("order-", n)), copied(t, &a.Server, from),
			copied(t, &hub.Server, to, "stays", fmt.Sprint("report-", n)), copied(t, &hub.Server, from),
			isGone(t, &hub.Server, configMap("tenant-a", fmt.Sprint("order-", n-1), nil)),
		)
	}
	hub.Eventually(func() error { return has(0) })
	for n := int64(1); ; n++ {
		b.set(n)
		hub.Create(configMap("tenant-a", fmt.Sprint("order-", n), nil))
		a.Create(configMap("reports", fmt.Sprint("report-", n), nil))
		hub.Delete(configMap("tenant-a", fmt.Sprint("order-", n-1), nil))
		a.Delete(configMap("reports", fmt.Sprint("report-", n-1), nil))
		for _, one := range all {
			editRule(t, hub, one.Name, func(r *hubv1.SyncRule) { r.Spec.To.Namespace = []string{"even", "odd"}[n%2] })
		}
		hub.Eventually(func() error {
			if b.fallen.Load() {
				return nil
			}
			return has(n)
		})
		if !b.fallen.Load() {
			b.mu.Lock()
			defer b.mu.Unlock()
			t.Logf("there were %d writes:\n%s", len(b.seen), strings.Join(b.seen, "\n"))
			return
		}
		hub.Stop()
		b.fallen.Store(false)
		hub.Start()
		hub.Eventually(func() error { return has(n) })
	}
}

// copied fails unless exactly these objects have a copy in a namespace.
func copied(t *testing.T, s *hubtest.Server, namespace string, names ...string) error {
	t.Helper()
	var all corev1.ConfigMapList
	if err := s.Client().List(t.Context(), &all, client.InNamespace(namespace), client.HasLabels{managedBy}); err != nil {
		return err
	}
	found := map[string]bool{}
	for _, one := range all.Items {
		found[one.Name] = true
	}
	slices.Sort(names)
	is := slices.Sorted(maps.Keys(found))
	return unless(slices.Equal(is, names), fmt.Sprintf("%s has %v, not %v", namespace, is, names))
}

func isGone(t *testing.T, s *hubtest.Server, obj client.Object) error {
	t.Helper()
	err := s.Client().Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	return unless(err != nil, obj.GetName()+" is left")
}

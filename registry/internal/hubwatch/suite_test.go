// SPDX-License-Identifier: Apache-2.0

package hubwatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

var must, eventually = testkit.Must, testkit.Eventually

// line is the connection to a hub's API server: it counts requests, can be cut, and can lead to another hub.
type line struct {
	mu     sync.Mutex // protects the fields
	to     *rest.Config
	next   http.RoundTripper
	cut    bool
	open   map[int]context.CancelFunc
	begun  int
	counts map[string]int // requests for collections by verb and resource
}

var errCut = errors.New("the line is cut")

func newLine(t testing.TB, to *fleet.Cluster) *line {
	t.Helper()
	l := &line{open: map[int]context.CancelFunc{}, counts: map[string]int{}}
	l.lead(t, to)
	return l
}

// lead leads the line to another hub. Watches end.
func (l *line) lead(t testing.TB, to *fleet.Cluster) {
	t.Helper()
	next, err := rest.TransportFor(to.Config())
	must(t, err)
	l.set(func() { l.to, l.next, l.cut = to.Config(), next, false })
}

func (l *line) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	for _, end := range l.open {
		end()
	}
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, end := context.WithCancel(r.Context())
	l.mu.Lock()
	number, next, cut := l.begun, l.next, l.cut
	l.begun++
	l.open[number] = end
	verb := "list"
	if r.URL.Query().Get("watch") == "true" {
		verb = "watch"
	}
	l.counts[verb+" "+r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]++
	host := strings.TrimPrefix(l.to.Host, "https://")
	l.mu.Unlock()
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, number)
	})
	if cut {
		end()
		return nil, errCut
	}
	r = r.Clone(ctx)
	r.URL.Host = host
	response, err := next.RoundTrip(r)
	if err != nil {
		end()
	}
	return response, err
}

func (l *line) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[what]
}

func clientOf(t testing.TB, c *fleet.Cluster) client.Client {
	t.Helper()
	config := c.Config()
	config.QPS = -1
	one, err := client.New(config, client.Options{Scheme: fleettest.Scheme(t)})
	must(t, err)
	return one
}

// hidden is a namespace that no subscription of the tests sees.
const hidden = "kube-public"

// newPool returns a Pool on a line, which is closed when the test ends.
func newPool(t testing.TB, l *line) *Pool {
	t.Helper()
	config, log := l.to, logr.Discard()
	httpClient, err := rest.HTTPClientFor(config)
	must(t, err)
	mapper, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	must(t, err)
	if one, ok := t.(*testing.T); ok {
		log = testr.New(one)
	}
	p := NewPool(t.Context(), Options{
		Hub: config, Transport: l, Mapper: mapper, Scheme: fleettest.Scheme(t), Schemas: meter.NewSchemas(fleettest.Scheme(t)),
		UserAgent: "hubwatch", Log: log, Timeout: 10 * time.Second,
		StaleAfter: time.Second, StaleTolerance: time.Minute, Hidden: hidden,
	})
	t.Cleanup(func() {
		p.Close()
		httpClient.CloseIdleConnections()
	})
	return p
}

func configMaps(test string) Selection {
	return Selection{
		Object: &corev1.ConfigMap{}, Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespaced: true,
		Labels: labelsOf(test),
	}
}

func wants(route Route, keys ...string) Want {
	return Want{Route: route, Keys: keys, Blocked: func(string, cache.Block) {}}
}

func subscribe(t testing.TB, p *Pool, s Selection, w Want) *Subscription {
	t.Helper()
	one, err := p.Subscribe(s, w)
	must(t, err)
	t.Cleanup(one.Close)
	return one
}

func configMap(namespace, name, test, to string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{"test": test, "to": to},
	}}
}

// create creates objects, which are deleted when the test ends: all runs of a test share the hub.
func create(t testing.TB, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, obj := range objects {
		must(t, c.Create(t.Context(), obj))
		t.Cleanup(func() { remove(t, c, obj) })
	}
}

// remove deletes an object, and waits until it is gone.
func remove(t testing.TB, c client.Client, obj client.Object) {
	t.Helper()
	ctx, one := context.WithoutCancel(t.Context()), obj.DeepCopyObject().(client.Object)
	one.SetUID("") // A test may have made it again.
	eventually(t, func() error {
		if err := client.IgnoreNotFound(c.Delete(ctx, one)); err != nil {
			return err
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(one), one); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s exists, or: %w", one.GetName(), err)
		}
		return nil
	})
}

func expectNames(t testing.TB, s *Subscription, want ...string) {
	t.Helper()
	eventually(t, func() error {
		var all corev1.ConfigMapList
		if err := s.List(t.Context(), &all); err != nil {
			return err
		}
		if got := namesOf(all.Items); fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("got %v, want %v", got, want)
		}
		return nil
	})
}

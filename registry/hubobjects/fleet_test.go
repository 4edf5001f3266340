// SPDX-License-Identifier: Apache-2.0

package hubobjects

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/evidence"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

var must, eventually = testkit.Must, testkit.Eventually

// line is the connection to a hub's API server: it counts requests and can be cut.
type line struct {
	next http.RoundTripper

	mu     sync.Mutex // protects the fields
	isCut  bool
	open   map[int]context.CancelFunc
	begun  int
	counts map[string]int // requests for collections by verb and resource
}

// cut ends the requests in progress.
func (l *line) cut(isCut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = isCut
	for _, end := range l.open {
		end()
	}
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, end := context.WithCancel(r.Context())
	l.mu.Lock()
	number, isCut := l.begun, l.isCut
	l.begun++
	l.open[number] = end
	verb := "list"
	if r.URL.Query().Get("watch") == "true" {
		verb = "watch"
	}
	l.counts[verb+" "+r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]++
	l.mu.Unlock()
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, number)
	})
	if isCut {
		end()
		return nil, errors.New("the line is cut")
	}
	response, err := l.next.RoundTrip(r.Clone(ctx))
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

// hidden is the namespace of the credentials.
const hidden = "kube-public"

// poolAt returns a Pool of a hub, which is closed when the test ends.
func poolAt(t testing.TB, config *rest.Config, via http.RoundTripper, place evidence.Place) *Pool {
	t.Helper()
	log := testkit.Log(t)
	if _, ok := t.(*testing.B); ok {
		log = logr.Discard()
	}
	p := NewPool(t.Context(), Options{
		Hub: config, Chain: transport.Chain{Base: via, Timeout: 10 * time.Second}, Place: place,
		Scheme: fleettest.Scheme(t), Schemas: meter.NewSchemas(fleettest.Scheme(t)), Log: log,
		StaleAfter: time.Second, StaleTolerance: time.Minute, Hidden: hidden,
	})
	t.Cleanup(p.Close)
	return p
}

// newPool returns a Pool of the fleet's hub on a line, and a client of the hub beside the line.
func newPool(t testing.TB) (*Pool, *line, client.Client) {
	t.Helper()
	config := fleettest.Cluster(t, "hub").Config()
	config.QPS = -1
	next, err := rest.TransportFor(config)
	must(t, err)
	l := &line{next: next, open: map[int]context.CancelFunc{}, counts: map[string]int{}}
	mapper := fleettest.Mapper(t, config)
	clientVia := func(via http.RoundTripper) client.Client {
		one, err := client.New(config, client.Options{
			HTTPClient: &http.Client{Transport: via}, Scheme: fleettest.Scheme(t), Mapper: mapper,
		})
		must(t, err)
		return one
	}
	return poolAt(t, config, l, evidence.Place{Reader: clientVia(l), Mapper: mapper}), l, clientVia(next)
}

// downHub is the transport of a hub that does not respond.
type downHub struct{}

func (downHub) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// offline returns a Pool whose informers receive what a test gives them.
func offline(t testing.TB) *Pool {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind, scope := range map[string]meta.RESTScope{
		"ConfigMap": meta.RESTScopeNamespace, "Secret": meta.RESTScopeNamespace, "Namespace": meta.RESTScopeRoot,
	} {
		mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: kind}, scope)
	}
	p := poolAt(t, &rest.Config{Host: "https://192.0.2.1"}, downHub{}, evidence.Place{Mapper: mapper})
	p.options.Log = logr.Discard()
	return p
}

// app is an app whose module may watch everything.
type app struct {
	*Source

	end     context.CancelCauseFunc
	sources int
	blocks  chan cache.Block
}

func newApp(t testing.TB, p *Pool) *app {
	t.Helper()
	a := &app{blocks: make(chan cache.Block, 100)}
	ctx, end := context.WithCancelCause(context.WithoutCancel(t.Context()))
	a.end = end
	t.Cleanup(func() { end(nil) })
	a.Source = p.Source(Binding{
		Context: ctx, Refuses: func([]rbac.NamespacedRules, schema.GroupResource, string) error { return nil },
		AddSource: func(func(time.Time) string) func() { a.sources++; return func() { a.sources-- } },
		Blocked:   func(_ string, why cache.Block) { a.blocks <- why },
	})
	return a
}

func (a *app) watch(t testing.TB, of Selection, keys ...string) *Objects {
	t.Helper()
	one, err := a.Watch(of, keys...)
	must(t, err)
	return one
}

// watch watches in an app of its own.
func watch(t testing.TB, p *Pool, of Selection, keys ...string) *Objects {
	t.Helper()
	return newApp(t, p).watch(t, of, keys...)
}

var byTo = ByLabel("to")

func configMaps(test string, route Route) Selection {
	return Selection{Object: &corev1.ConfigMap{}, Labels: labels.SelectorFromSet(labels.Set{"test": test}), Route: route}
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
		t.Cleanup(func() {
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
		})
	}
}

func namesOf(all []corev1.ConfigMap) (names []string) {
	for _, one := range all {
		names = append(names, one.Name)
	}
	slices.Sort(names)
	return names
}

func expectNames(t testing.TB, o *Objects, want ...string) {
	t.Helper()
	eventually(t, func() error {
		var all corev1.ConfigMapList
		if err := o.List(t.Context(), &all); err != nil {
			return err
		}
		if got := namesOf(all.Items); fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("got %v, want %v", got, want)
		}
		return nil
	})
}

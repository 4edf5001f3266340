// SPDX-License-Identifier: Apache-2.0

package app

import (
	goruntime "runtime"
	"testing"
	"weak"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
)

// readingClient is a client that keeps its reader.
type readingClient struct {
	client.Client
	from client.Reader
}

// cachedBy is a manager that has nothing but a cache.
type cachedBy struct {
	ctrl.Manager
	cache ctrlcache.Cache
}

func (m cachedBy) GetCache() ctrlcache.Cache { return m.cache }

// The client of leases that an app keeps for a hub part does not keep the first life of that hub part in memory.
func TestLife_LendTo(t *testing.T) {
	t.Parallel()
	made := 0
	l := &Life{lend: func(from client.Reader) (client.Client, error) {
		made++
		return readingClient{from: from}, nil
	}}
	l.Manager = cachedBy{cache: cacheWithAFilter(t)}
	lend := func() weak.Pointer[contain.App] {
		app := &contain.App{}
		testkit.Must(t, testkit.Err(l.LendTo(contain.NewContainer(app, "dns", logr.Discard()))))
		return weak.Make(app)
	}
	first := lend()
	if goruntime.GC(); first.Value() != nil {
		t.Error("first life of the hub part stays in memory")
	}
	if lend(); made != 1 {
		t.Errorf("%d clients were made, want one for all lives of the hub part", made)
	}
	goruntime.KeepAlive(l)
}

// cacheWithAFilter returns a cache that does not run, with a filter of a module.
func cacheWithAFilter(t *testing.T) *cache.Cache {
	t.Helper()
	s := runtime.NewScheme()
	testkit.Must(t, corev1.AddToScheme(s))
	c, err := cache.New(&rest.Config{}, ctrlcache.Options{Scheme: s, Mapper: meta.NewDefaultRESTMapper(nil)}, cache.Options{
		Context: t.Context(), Scheme: s,
	})
	testkit.Must(t, err)
	one := cache.Filter{Object: &corev1.Secret{}, Namespaces: []string{"default"}}
	testkit.Must(t, c.AddFilters("dns", []cache.Filter{one}, func(f func()) { f() }))
	return c
}

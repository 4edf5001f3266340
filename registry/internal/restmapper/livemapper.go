// SPDX-License-Identifier: Apache-2.0

package restmapper

import (
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rediscoverEvery bounds how often one app asks again about a kind that its remote does not
// serve, so that a module which keeps asking cannot flood the remote.
const rediscoverEvery = 5 * time.Second

// Mapper is one app's view of the mappings: a shared mapping that it replaces when somebody
// asks for a kind which the mapping does not have, such as that of a CRD installed since.
type Mapper struct {
	// rediscover asks the remote. It is bounded by the transport's deadline, not by a context:
	// the RESTMapper interface has none.
	rediscover func() (*mapping, error)
	flight     singleflight.Group

	mu      sync.Mutex // protects the fields; never held while rediscovering
	current *mapping
	last    time.Time
}

var _ meta.RESTMapper = (*Mapper)(nil)

func newMapper(current *mapping, rediscover func() (*mapping, error)) *Mapper {
	return &Mapper{current: current, rediscover: rediscover, last: time.Now()}
}

// lookUp asks the mapping in use, and a newer one if that one does not know.
func lookUp[T any](l *Mapper, ask func(*mapping) (T, error)) (T, error) {
	used := l.inUse()
	found, err := ask(used)
	if err == nil || !meta.IsNoMatchError(err) {
		return found, err
	}
	if newer := l.newerThan(used); newer != used {
		return ask(newer)
	}
	return found, err
}

func (l *Mapper) inUse() *mapping {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// newerThan returns a mapping that is not used, or used where there is no newer one to be had
// now.
func (l *Mapper) newerThan(used *mapping) *mapping {
	l.mu.Lock()
	if l.current != used {
		defer l.mu.Unlock()
		return l.current
	}
	wait := time.Since(l.last) < rediscoverEvery
	l.mu.Unlock()
	if wait {
		return used
	}
	newer, err, _ := l.flight.Do("", func() (any, error) { return l.rediscover() })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = time.Now()
	if err == nil {
		l.current = newer.(*mapping)
	}
	return l.current
}

// KindFor implements meta.RESTMapper, as the methods below do.
func (l *Mapper) KindFor(r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return lookUp(l, func(m *mapping) (schema.GroupVersionKind, error) { return m.KindFor(r) })
}

func (l *Mapper) KindsFor(r schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return lookUp(l, func(m *mapping) ([]schema.GroupVersionKind, error) { return m.KindsFor(r) })
}

func (l *Mapper) ResourceFor(r schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return lookUp(l, func(m *mapping) (schema.GroupVersionResource, error) { return m.ResourceFor(r) })
}

func (l *Mapper) ResourcesFor(r schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return lookUp(l, func(m *mapping) ([]schema.GroupVersionResource, error) { return m.ResourcesFor(r) })
}

func (l *Mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return lookUp(l, func(m *mapping) (*meta.RESTMapping, error) { return m.RESTMapping(gk, versions...) })
}

func (l *Mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return lookUp(l, func(m *mapping) ([]*meta.RESTMapping, error) { return m.RESTMappings(gk, versions...) })
}

func (l *Mapper) ResourceSingularizer(resource string) (string, error) {
	return l.inUse().ResourceSingularizer(resource)
}

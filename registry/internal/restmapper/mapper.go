// SPDX-License-Identifier: Apache-2.0

package restmapper

import (
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// One app discovers again once in rediscoverInterval on average, rediscoverBurst times in a row at most: a module that
// keeps asking for a missing kind must not flood the remote. The burst is for a new kind, which an API server lists a
// second or two after it serves it.
const (
	rediscoverInterval = 5 * time.Second
	rediscoverBurst    = 4
)

// mapper is the meta.RESTMapper of one app. It replaces its shared mapping after a request for an unknown kind, such as
// that of a new CRD.
type mapper struct {
	// rediscover is limited by the transport's deadline: the methods of meta.RESTMapper have no context.
	rediscover func() (*mapping, error)
	flight     singleflight.Group

	limiter *rate.Limiter
	current atomic.Pointer[mapping]
}

var _ meta.RESTMapper = (*mapper)(nil)

func newMapper(current *mapping, rediscover func() (*mapping, error)) *mapper {
	l := &mapper{rediscover: rediscover, limiter: rate.NewLimiter(rate.Every(rediscoverInterval), rediscoverBurst)}
	l.current.Store(current)
	return l
}

func lookUp[T any](l *mapper, query func(*mapping) (T, error)) (T, error) {
	used := l.current.Load()
	found, err := query(used)
	if err == nil || !meta.IsNoMatchError(err) {
		return found, err
	}
	if newer := l.newerThan(used); newer != used {
		return query(newer)
	}
	return found, err
}

// newerThan returns used if there is no newer mapping now.
func (l *mapper) newerThan(used *mapping) *mapping {
	if now := l.current.Load(); now != used {
		return now
	}
	newer, err, _ := l.flight.Do("", func() (any, error) {
		if !l.limiter.Allow() {
			return (*mapping)(nil), nil
		}
		return l.rediscover()
	})
	if newer, ok := newer.(*mapping); ok && err == nil && newer != nil {
		l.current.Store(newer)
	}
	return l.current.Load()
}

func (l *mapper) KindFor(r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return lookUp(l, func(m *mapping) (schema.GroupVersionKind, error) { return m.KindFor(r) })
}

func (l *mapper) KindsFor(r schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return lookUp(l, func(m *mapping) ([]schema.GroupVersionKind, error) { return m.KindsFor(r) })
}

func (l *mapper) ResourceFor(r schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return lookUp(l, func(m *mapping) (schema.GroupVersionResource, error) { return m.ResourceFor(r) })
}

func (l *mapper) ResourcesFor(r schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return lookUp(l, func(m *mapping) ([]schema.GroupVersionResource, error) { return m.ResourcesFor(r) })
}

func (l *mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return lookUp(l, func(m *mapping) (*meta.RESTMapping, error) { return m.RESTMapping(gk, versions...) })
}

func (l *mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return lookUp(l, func(m *mapping) ([]*meta.RESTMapping, error) { return m.RESTMappings(gk, versions...) })
}

func (l *mapper) ResourceSingularizer(resource string) (string, error) {
	return l.current.Load().ResourceSingularizer(resource)
}

// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

const pollPeriod = 20 * time.Millisecond

// Eventually calls check until it returns nil. After Patience the test ends with the last error and the conditions of
// all Clusters.
func (s *Server) Eventually(check func() error) {
	s.tb.Helper()
	s.wait("", func(context.Context) error { return check() })
}

// WaitFor reads an object live until check, which inspects it, returns nil, and waits for it to exist:
//
//	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "greeting"}}
//	hub.WaitFor(cm, func() error { return equal(cm.Data["text"], "hello") })
//
// After Patience the test ends with the last error and state.
func (s *Server) WaitFor(object client.Object, check func() error) {
	s.tb.Helper()
	what := describe(s.site.scheme, object)
	s.wait(what, func(ctx context.Context) error {
		if err := read(ctx, s.Client(), object); err != nil {
			return err
		}
		if err := check(); err != nil {
			return fmt.Errorf("%w\n%s", err, dump(object))
		}
		return nil
	})
}

// WaitGone waits until an object no longer exists.
func (s *Server) WaitGone(object client.Object) {
	s.tb.Helper()
	s.wait("the end of "+describe(s.site.scheme, object), func(ctx context.Context) error {
		now := fresh(object)
		err := s.Client().Get(ctx, client.ObjectKeyFromObject(object), now)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("it is there:\n%s", dump(now))
		}
		return err
	})
}

func (s *Server) wait(what string, check func(context.Context) error) {
	s.tb.Helper()
	ctx, cancel := s.context()
	defer cancel()
	ticker := time.NewTicker(pollPeriod)
	defer ticker.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if last == nil || ctx.Err() == nil {
			last = err // rather than the error of the deadline
		}
		if failure := s.site.process.failure(); failure != nil {
			s.tb.Fatalf("hubtest: the hub has ended: %v", failure)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			s.tb.Fatalf("hubtest: %s: %s", s.waited(ctx, what), s.explain(last))
		}
	}
}

func (s *Server) waited(ctx context.Context, what string) string {
	if what != "" {
		what = " for " + what + " in " + s.way.name
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return "the test ended while it waited" + what
	}
	return fmt.Sprintf("waited %s%s", s.site.options.patience, what)
}

func read(ctx context.Context, c client.Reader, object client.Object) error {
	now := fresh(object)
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), now); err != nil {
		return err
	}
	reflect.ValueOf(object).Elem().Set(reflect.ValueOf(now).Elem())
	return nil
}

func fresh(object client.Object) client.Object {
	now, _ := reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
	now.GetObjectKind().SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	return now
}

func isSeen(ctx context.Context, cache client.Reader, want client.Object) error {
	have := fresh(want)
	err := cache.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case err != nil:
		return err
	case have.GetUID() != want.GetUID():
		return fmt.Errorf("the cache has another object of that name:\n%s", dump(have))
	}
	order, err := resourceversion.CompareResourceVersion(have.GetResourceVersion(), want.GetResourceVersion())
	if err == nil && order < 0 {
		err = fmt.Errorf("the cache has resourceVersion %s, not %s yet", have.GetResourceVersion(), want.GetResourceVersion())
	}
	return err
}

// WaitCached waits until the hub's cache has this version, or a later one, of an object that the test has just
// created, read or written. It makes the hub cache the kind.
func (h *Hub) WaitCached(object client.Object) {
	h.tb.Helper()
	h.wait("the cached "+describe(h.site.scheme, object), func(ctx context.Context) error {
		now, err := h.site.process.running()
		if err != nil {
			return err
		}
		return isSeen(ctx, now.Cache, object)
	})
}

// WaitCached is Hub.WaitCached for the cache of the remote's app.
func (r *Remote) WaitCached(object client.Object) {
	r.tb.Helper()
	r.wait("the cached "+describe(r.site.scheme, object), func(ctx context.Context) error {
		return r.withApp(ctx, func(ctx context.Context, c cluster.Cluster) error {
			return isSeen(ctx, c.GetCache(), object)
		})
	})
}

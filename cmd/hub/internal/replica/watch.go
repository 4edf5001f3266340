// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// watch feeds the Machine until ctx ends, and begins again, with new connections, when the watch of Leases is silent.
func (l *life) watch(ctx context.Context) {
	for ctx.Err() == nil {
		watching, stop := context.WithCancel(logr.NewContext(ctx, l.log.V(1)))
		leases, maps := l.store.watches.leases, l.store.watches.maps
		var reflectors sync.WaitGroup
		reflectors.Go(func() {
			l.reflector(selected(l, leases.List, leases.Watch, metav1.ListOptions{LabelSelector: label}), &coordinationv1.Lease{}, &leaseFeed{life: l}).RunWithContext(watching)
		})
		reflectors.Go(func() {
			l.reflector(selected(l, maps.List, maps.Watch, metav1.ListOptions{FieldSelector: "metadata.name=" + assignmentName}), &corev1.ConfigMap{}, &mapFeed{life: l}).RunWithContext(watching)
		})
		l.awaitSilence(ctx)
		stop()
		reflectors.Wait()
		l.store.watches.close()
	}
}

// awaitSilence waits until no own renewal was seen for the deadline, although they are accepted, or ctx ends.
func (l *life) awaitSilence(ctx context.Context) {
	timing := l.options.Timing
	l.mu.Lock()
	l.heard = time.Now()
	l.mu.Unlock()
	for ctx.Err() == nil {
		Pause(ctx, timing.Retry)
		l.mu.Lock()
		silence, contact := time.Since(l.heard), time.Since(l.renewed)
		l.mu.Unlock()
		if silence > timing.Deadline && contact < timing.Deadline/2 {
			l.log.Info("The watch of the Leases delivers nothing; it is replaced", "silence", silence.String())
			return
		}
	}
}

// reflector tries again as often as the Lease is renewed.
func (l *life) reflector(objects *cache.ListWatch, kind runtime.Object, feed cache.ReflectorStore) *cache.Reflector {
	log := l.log.V(1)
	return cache.NewReflectorWithOptions(objects, kind, feed, cache.ReflectorOptions{
		Logger: &log, Name: "replica",
		Backoff: &wait.Backoff{Duration: l.options.Timing.Retry / 2, Factor: 1, Jitter: 1},
	})
}

func selected[L runtime.Object](
	l *life,
	list func(context.Context, metav1.ListOptions) (L, error),
	follow func(context.Context, metav1.ListOptions) (watch.Interface, error),
	which metav1.ListOptions,
) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, l.store.timeout)
			defer cancel()
			o.LabelSelector, o.FieldSelector = which.LabelSelector, which.FieldSelector
			return list(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector, o.FieldSelector = which.LabelSelector, which.FieldSelector
			return follow(ctx, o)
		},
	}
}

type leaseFeed struct{ life *life }

func (f *leaseFeed) Add(object any) error {
	if lease, ok := object.(*coordinationv1.Lease); ok {
		f.life.see(lease)
		f.life.hear(lease.Name)
	}
	signal(f.life.kicked)
	return nil
}

func (f *leaseFeed) Update(object any) error { return f.Add(object) }

func (f *leaseFeed) Delete(object any) error {
	if lease, ok := object.(*coordinationv1.Lease); ok {
		f.life.seeMissing(lease.Name)
		f.life.seeDeleted(lease)
	}
	signal(f.life.kicked)
	return nil
}

func (f *leaseFeed) Replace(objects []any, _ string) error {
	missing := f.life.knownLeases()
	for _, object := range objects {
		if lease, ok := object.(*coordinationv1.Lease); ok {
			delete(missing, lease.Name)
			f.life.see(lease)
		}
	}
	for name := range missing {
		f.life.seeMissing(name)
	}
	f.life.filled(func(v *view) { v.hasLeases = true })
	return nil
}

func (f *leaseFeed) Resync() error { return nil }

type mapFeed struct{ life *life }

func (f *mapFeed) Add(object any) error {
	if m, ok := object.(*corev1.ConfigMap); ok && m.Name == assignmentName {
		f.life.seeAssignment(m)
		signal(f.life.kicked)
	}
	return nil
}

func (f *mapFeed) Update(object any) error { return f.Add(object) }

// The wishes in the Machine stay until there is another assignment.
func (f *mapFeed) Delete(object any) error {
	if m, ok := object.(*corev1.ConfigMap); ok && m.Name == assignmentName {
		f.life.seeAssignment(nil)
		signal(f.life.kicked)
	}
	return nil
}

func (f *mapFeed) Replace(objects []any, _ string) error {
	var found *corev1.ConfigMap
	for _, object := range objects {
		if m, ok := object.(*corev1.ConfigMap); ok && m.Name == assignmentName {
			found = m
		}
	}
	f.life.seeAssignment(found)
	f.life.filled(func(v *view) { v.hasWishes = true })
	return nil
}

func (f *mapFeed) Resync() error { return nil }

func (l *life) hear(name string) {
	if name != l.me {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = time.Now()
}

func (l *life) seeMissing(name string) {
	l.seeDamaged(name)
	if !strings.HasPrefix(name, recordPrefix) {
		l.seeLease(name, nil)
	}
}

func (l *life) knownLeases() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := map[string]bool{}
	for name := range l.view.leases {
		names[name] = true
	}
	for shard := range l.options.Count + 1 {
		names[recordName(shard)] = true
	}
	return names
}

func (l *life) filled(note func(*view)) {
	defer signal(l.kicked)
	l.mu.Lock()
	defer l.mu.Unlock()
	if note(&l.view); l.view.hasLeases && l.synced.IsZero() {
		l.synced = time.Now()
	}
}

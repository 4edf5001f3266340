// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// watch feeds the Machine until ctx ends, and begins again, with new connections, when the watch of Leases is silent.
func (l *life) watch(ctx context.Context) {
	kube, namespace := l.store.watches.kube, l.options.Namespace
	leases := cache.NewFilteredListWatchFromClient(kube.CoordinationV1().RESTClient(), "leases", namespace,
		func(o *metav1.ListOptions) { o.LabelSelector = label })
	wishes := cache.NewFilteredListWatchFromClient(kube.CoreV1().RESTClient(), configMaps, namespace,
		func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + assignmentName })
	for ctx.Err() == nil {
		watching, stop := context.WithCancel(logr.NewContext(ctx, l.log.V(1)))
		var reflectors sync.WaitGroup
		reflectors.Go(func() {
			l.reflector(leases, &coordinationv1.Lease{}, &feed{l, l.knownLeases, &l.view.hasLeases}).RunWithContext(watching)
		})
		reflectors.Go(func() {
			known := func() sets.Set[string] { return sets.New(assignmentName) }
			l.reflector(wishes, &corev1.ConfigMap{}, &feed{l, known, &l.view.hasWishes}).RunWithContext(watching)
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
func (l *life) reflector(objects *cache.ListWatch, kind runtime.Object, to *feed) *cache.Reflector {
	log := l.log.V(1)
	return cache.NewReflectorWithOptions(objects, kind, to, cache.ReflectorOptions{
		Logger: &log, Name: "replica",
		Backoff: &wait.Backoff{Duration: l.options.Timing.Retry / 2, Factor: 1, Jitter: 1},
	})
}

// feed takes what a reflector reads.
type feed struct {
	*life
	known  func() sets.Set[string] // the names of objects that a list may lack
	isRead *bool
}

func (f *feed) Add(object any) error {
	defer signal(f.kicked)
	f.see(object)
	return nil
}

func (f *feed) Update(object any) error { return f.Add(object) }

func (f *feed) Delete(object any) error {
	defer signal(f.kicked)
	switch o := object.(type) {
	case *coordinationv1.Lease:
		f.seeMissing(o.Name, o.ResourceVersion)
		f.seeDeleted(o)
	case *corev1.ConfigMap:
		f.seeMissing(o.Name, o.ResourceVersion)
	}
	return nil
}

func (f *feed) Replace(objects []any, version string) error {
	defer signal(f.kicked)
	missing := f.known()
	for _, object := range objects {
		missing.Delete(nameOf(object))
		f.see(object)
	}
	for name := range missing {
		f.seeMissing(name, version)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if *f.isRead = true; f.view.hasLeases && f.synced.IsZero() {
		f.synced = time.Now()
	}
	return nil
}

func (f *feed) Resync() error { return nil }

func nameOf(object any) string {
	if o, ok := object.(metav1.Object); ok {
		return o.GetName()
	}
	return ""
}

func (l *life) knownLeases() sets.Set[string] {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := sets.New(slices.Collect(maps.Keys(l.view.leases))...)
	for shard := range l.options.Count + 1 {
		names.Insert(recordName(shard))
	}
	return names
}

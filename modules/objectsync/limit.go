// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
)

const (
	labelTimeout = 10 * time.Second
	// countAgain is the age of a count that is renewed when a limit is exceeded, and the retry of an original beyond
	// it.
	countAgain      = time.Minute
	reasonOverLimit = "OverLimit"
)

type limit struct {
	objects int
	bytes   int64
	rule    *entry

	counting sync.Mutex // protects counted; held while the copies are counted, which reads memory
	counted  time.Time

	mu    sync.Mutex // protects the fields below
	sizes map[types.NamespacedName]int64
	total int64
}

func newLimit(r *entry) *limit {
	c := r.params.Config
	return &limit{objects: int(c.Limits.Objects), bytes: c.MaxBytes(), rule: r, sizes: map[types.NamespacedName]int64{}}
}

func (l *limit) check(ctx context.Context, up object, s *syncer.Session[object]) (time.Duration, error) {
	size, err := sizeOf(up)
	if err != nil {
		return 0, err
	}
	for _, younger := range []time.Duration{math.MaxInt64, countAgain} { // The copies of an earlier app come first.
		if err := l.count(ctx, younger); err != nil {
			return 0, err
		}
		if l.admit(s.Target(), size) {
			return 0, nil
		}
	}
	return wait.Jitter(countAgain, 1), s.Event(ctx, corev1.EventTypeWarning, reasonOverLimit, fmt.Sprintf(
		"Rule %s brings at most %d objects and %d bytes from this cluster into the hub; this object is beyond that.",
		l.rule.Name, l.objects, l.bytes))
}

// sizeOf leaves out the status, marks and what the API server adds, so that original and copy have nearly one size.
func sizeOf(obj object) (int64, error) {
	content := maps.Clone(obj.Object)
	delete(content, "status")
	content["metadata"] = []map[string]string{copiedKeys(obj.GetLabels()), copiedKeys(obj.GetAnnotations())}
	data, err := json.Marshal(content)
	return int64(len(data)), err
}

func copiedKeys(all map[string]string) map[string]string {
	all = maps.Clone(all)
	maps.DeleteFunc(all, func(key, _ string) bool { return rules.IsReserved(key) })
	return all
}

func (l *limit) admit(name types.NamespacedName, size int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known := l.sizes[name]
	count := len(l.sizes)
	if !known {
		count++
	}
	grows := !known || size > before
	if grows && (count > l.objects || l.total-before+size > l.bytes) {
		return false
	}
	l.sizes[name] = size
	l.total += size - before
	return true
}

// count does nothing if there is a younger count. One worker counts, the others wait.
func (l *limit) count(ctx context.Context, younger time.Duration) error {
	l.counting.Lock()
	defer l.counting.Unlock()
	if !l.counted.IsZero() && time.Since(l.counted) < younger {
		return nil
	}
	all := listOf(l.rule.GVK())
	if err := l.rule.opened.Copies.Reader().List(ctx, all); err != nil {
		return fmt.Errorf("count the copies of rule %s: %w", l.rule.Name, err)
	}
	sizes, total := map[types.NamespacedName]int64{}, int64(0)
	for i := range all.Items {
		one := &all.Items[i]
		size, err := sizeOf(one)
		if err != nil {
			return err
		}
		if translate.IsCopy(one) {
			sizes[types.NamespacedName{Namespace: one.GetNamespace(), Name: one.GetName()}] = size
			total += size
		}
	}
	l.counted = time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sizes, l.total = sizes, total
	return nil
}

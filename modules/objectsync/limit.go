// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// limit is what a rule has brought from a remote.
type limit struct {
	mu      sync.Mutex // protects the fields; held while the copies are counted, which reads memory
	counted time.Time
	sizes   map[types.NamespacedName]int64
	total   int64
}

// withinLimit counts the copies first, since those of an earlier app come first, and again when one does not fit.
func (e *entry) withinLimit(ctx context.Context, up object, to types.NamespacedName) error {
	size, err := sizeOf(up)
	if err != nil {
		return err
	}
	l, c := &e.limit, e.params.Config
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.counted.IsZero() && l.fits(c, to, size) {
		return nil
	}
	if time.Since(l.counted) >= countAgain {
		if err := e.count(ctx); err != nil || l.fits(c, to, size) {
			return err
		}
	}
	return &syncer.LaterError{After: wait.Jitter(countAgain, 1), Reason: reasonOverLimit, Why: fmt.Sprintf(
		"Rule %s brings at most %d objects and %d bytes from this cluster into the hub; this object is beyond that.",
		e.Name, c.Limits.Objects, c.MaxBytes())}
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

// fits needs the lock, as count does.
func (l *limit) fits(c rules.Config, name types.NamespacedName, size int64) bool {
	before, known := l.sizes[name]
	count := len(l.sizes)
	if !known {
		count++
	}
	grows := !known || size > before
	if grows && (count > int(c.Limits.Objects) || l.total-before+size > c.MaxBytes()) {
		return false
	}
	l.sizes[name] = size
	l.total += size - before
	return true
}

func (e *entry) count(ctx context.Context) error {
	l, all := &e.limit, listOf(e.GVK())
	if err := e.opened.Copies.Reader().List(ctx, all); err != nil {
		return fmt.Errorf("count the copies of rule %s: %w", e.Name, err)
	}
	l.sizes, l.total, l.counted = map[types.NamespacedName]int64{}, 0, time.Now()
	for i := range all.Items {
		one := &all.Items[i]
		size, err := sizeOf(one)
		if err != nil {
			return err
		}
		if translate.IsCopy(one) {
			l.sizes[client.ObjectKeyFromObject(one)] = size
			l.total += size
		}
	}
	return nil
}

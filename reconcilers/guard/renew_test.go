// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/clusterfx/clusterfx/reconcilers/guard/lock"
)

// lateAnswers is a store that applies writes at once, and responds late, with one delay for each write. After the last
// delay it no longer applies writes.
type lateAnswers struct {
	entry  entry
	object *corev1.ConfigMap
	late   []time.Duration // for each write
	writes []time.Time     // times of the applied writes
}

func (p *lateAnswers) view(context.Context, *corev1.ConfigMap) (entry, error) { return p.entry, nil }

func (p *lateAnswers) discard(ctx context.Context, may func(lock.State) error) (func(context.Context) error, error) {
	return statusStore[*corev1.ConfigMap]{}.discard(ctx, may)
}

func (p *lateAnswers) read(context.Context) (snapshot[*corev1.ConfigMap], error) {
	return snapshot[*corev1.ConfigMap]{entry: p.entry, object: p.object.DeepCopy()}, nil
}

func (p *lateAnswers) write(ctx context.Context, s snapshot[*corev1.ConfigMap]) (*corev1.ConfigMap, error) {
	if len(p.writes) == len(p.late) {
		<-ctx.Done()
		return s.object, ctx.Err()
	}
	late := p.late[len(p.writes)]
	p.writes = append(p.writes, time.Now())
	p.entry = s.entry
	sleep(ctx, realClock{}, late)
	return s.object, ctx.Err()
}

// A lock is valid for two thirds of its TTL after its write was sent, not after the response: other replicas count from
// the time at which they can see it.
func TestRenew_CountsFromWhatWasSent(t *testing.T) {
	t.Parallel()
	const ttl = 30 * time.Second
	guarded := func(t *testing.T, late ...time.Duration) (held time.Duration, err error) {
		t.Helper()
		p := &lateAnswers{late: late, object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "uid", Generation: 1}}}
		o, _ := Options[*corev1.ConfigMap]{Name: "test", TTL: ttl}.withDefaults()
		c := &Controller[*corev1.ConfigMap]{
			host: &Host[*corev1.ConfigMap]{options: o, clock: realClock{}, holder: "us", others: cache.NewLRUExpireCache(1)}, store: p,
			object: p.object, precondition: preconditionOf(p.object), key: lockKey{uid: "uid", kind: "Done"},
		}
		err = c.Guard(t.Context(), "work", func(ctx context.Context, _ Attempt) (Outcome, error) {
			<-ctx.Done()
			held = time.Since(p.writes[len(p.writes)-1])
			return Outcome{}, context.Cause(ctx)
		})
		return held, err
	}
	for what, late := range map[string][]time.Duration{
		"the first write": {8 * time.Second}, "a renewal": {0, 9 * time.Second}, "several": {time.Second, 5 * time.Second, 9 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			held, err := guarded(t, late...)
			if !errors.Is(err, ErrLockLost) || held != 2*ttl/3 {
				t.Errorf("response to %s is late: lock held for %v, error %v", what, held, err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		held, err := guarded(t, 25*time.Second)
		if !errors.Is(err, ErrLockLost) || held != 0 {
			t.Errorf("lock arrives too late: task ran for %v, error %v", held, err)
		}
	})
}

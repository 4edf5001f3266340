// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/state"
)

// The count notices large objects that a sample would miss.
func TestInformer_CountsWhatALiarSends(t *testing.T) {
	t.Parallel()
	const keep = 1 << 20
	in := meter.NewLimiter(nil, keep)
	s := &Informer{budget: &budget{options: Options{Meter: in, Limits: Limits{MaxBytes: keep}}}}
	var noticed, real int64
	for n := range 48 {
		size := 10
		if n >= sampleAll {
			size = keep / 10
		}
		one := &corev1.ConfigMap{Data: map[string]string{"x": strings.Repeat("x", size)}}
		in.Taken.Add(meter.Sizeof(one)) // as the meters do before the object is decoded
		noticed += s.count(one).Bytes
		real += meter.Sizeof(one)
	}
	if noticed < real-keep {
		t.Errorf("counted %d bytes of %d", noticed, real)
	}
}

// Objects that arrive after the limit wait for the end of the cache: no more objects are stored while the app ends.
func TestBudget_HoldsUpWhatArrivesAfterTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 10
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel() // ends the timer of the budget
		o, failed := someOptions(ctx, scheme.Scheme, meter.NewLimiter(nil, 1<<20)), false
		o.Limits.MaxObjects = most
		o.Fail = func(error) { failed = true }
		budget := newBudget(o)
		informer := newInformer(budget, &corev1.ConfigMap{})
		informer.begin()
		arrived := 0
		go func() {
			for range most + 5 {
				if _, err := informer.receive(&corev1.ConfigMap{}); err != nil {
					t.Error(err)
				}
				arrived++
			}
		}()
		synctest.Wait()
		if arrived != most {
			t.Errorf("informer accepted %d objects, want %d", arrived, most)
		}
		if !failed {
			t.Error("budget does not end the app")
		}
		cancel() // The app is fenced; its cache has not ended yet.
		synctest.Wait()
		if arrived != most {
			t.Errorf("informer accepted %d objects before the end of the cache, want %d", arrived, most)
		}
		close(budget.ended)
		synctest.Wait()
		if arrived != most+5 {
			t.Errorf("informer still waits after the end of the cache, at %d objects", arrived)
		}
	})
}

func newInformer(b *budget, obj runtime.Object) *Informer {
	return (&selection{budget: b}).newInformer(&toolscache.ListWatch{}, obj, 0, toolscache.Indexers{}).(*Informer)
}

func someOptions(ctx context.Context, s *runtime.Scheme, m *meter.Limiter) Options {
	return Options{
		Context: ctx, Scheme: s, Meter: m,
		Limits: Limits{
			MaxObjects: 100_000, MaxBytes: 256 << 20, StaleAfter: 30 * time.Second, StaleTolerance: 2 * time.Minute,
			Handling: 5 * time.Minute,
		},
		Blocked: func(string, Block) {}, Missed: func() {}, Stale: func() {}, Fail: func(error) {},
	}
}

// The informer of a list may stop while a page of the list is counted. The error then names the limit, and neither a kind nor a module.
func TestBudget_OverWithoutInformers(t *testing.T) {
	t.Parallel()
	b := newBudget(Options{Context: t.Context()})
	b.NoteWatcher("ConfigMap", "dns")
	err := b.overBudget("1 MiB", state.ProblemTooManyBytes, func(a Amount) int64 { return a.Bytes })
	if over, ok := errors.AsType[*OverBudgetError](err); !ok || over.Module != "" || over.Problem.Kind != state.ProblemTooManyBytes {
		t.Errorf("overBudget: got %v, want an OverBudgetError with the limit", err)
	}
	if want := "the cache would hold more than 1 MiB"; err.Error() != want {
		t.Errorf("overBudget: got %q, want %q", err, want)
	}
}

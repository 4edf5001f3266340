// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
)

// A measurement that finds nothing wrong is not the last one: objects that have arrived may not be stored yet. Another one
// follows a second later, and at once when as many objects arrive again.
func TestBudget_MeasuresAgain(t *testing.T) {
	t.Parallel()
	const most = 10
	for name, again := range map[string]func(b *budget){
		"a second later":                func(*budget) { <-time.After(time.Second) },
		"when as many arrive once more": func(b *budget) { go b.spend(Amount{Objects: most + 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, failed := someOptions(t.Context(), scheme.Scheme, meter.NewLimiter(nil, 1<<20)), false
				o.Limits.MaxObjects = most
				o.Fail = func(error) { failed = true }
				b := newBudget(o)
				defer close(b.ended)
				informer := newInformer(b, &corev1.ConfigMap{})
				informer.measure() // The next one for metrics is in half a minute.
				b.spend(Amount{Objects: most + 1})
				if failed {
					t.Error("objects that are not stored end the app")
				}
				for i := range most + 1 {
					must(t, informer.GetStore().Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(i)}}))
				}
				again(b)
				synctest.Wait()
				if !failed {
					t.Error("the stored objects do not end the app")
				}
			})
		})
	}
}

// A rehearsal measures each object, and not a sample, so that two of them say the same.
func TestBudget_Measure(t *testing.T) {
	t.Parallel()
	b := newBudget(someOptions(t.Context(), scheme.Scheme, meter.NewLimiter(nil, 1<<20)))
	defer close(b.ended)
	informer, want := newInformer(b, &corev1.ConfigMap{}), int64(0)
	for i := range 4 * sampleStored {
		one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(i)}, Data: map[string]string{"text": strings.Repeat("x", i)}}
		want += meter.Sizeof(one)
		must(t, informer.GetStore().Add(one))
	}
	b.Measure()
	testkit.Equal(t, b.Held(), map[string]Amount{"ConfigMap": {4 * sampleStored, want}}, "what is in memory")
	b.refresh() // The rehearsal waits for other apps.
	testkit.Equal(t, b.Held(), map[string]Amount{"ConfigMap": {4 * sampleStored, want}}, "what is in memory later")
}

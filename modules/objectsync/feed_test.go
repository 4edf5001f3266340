// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/side"
)

// An event is that of the rules that it concerns, and of no others: with many rules of a kind each would be as many requests.
func TestFeed_Observe(t *testing.T) {
	t.Parallel()
	f, queue := &feed{members: map[*entry]*member{}}, workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[request]())
	defer queue.ShutDown()
	asked := 0
	for i := range 200 {
		one := testEntry(t)
		one.Name, one.table = fmt.Sprint("rule-", i), &table{queue: queue}
		f.members[one] = &member{
			concerns: func(obj *metav1.ObjectMeta) bool { return obj.Labels["rule"] == one.Name },
			Watched: syncer.Watched{Observe: func(_ context.Context, obj client.Object, _ bool) []types.NamespacedName {
				asked++
				return []types.NamespacedName{client.ObjectKeyFromObject(obj)}
			}},
		}
	}
	f.members[testEntry(t)] = nil // It has not joined.
	obj := emptyOf(namespaceMetadata().GroupVersionKind())
	obj.SetName("one")
	obj.SetLabels(map[string]string{"rule": "rule-7"})
	f.observe(t.Context(), obj, false)
	testkit.Equal(t, asked, 1, "rules that have seen the event")
	testkit.Equal(t, queue.Len(), 1, "requests")
	got, _ := queue.Get()
	testkit.Equal(t, got, request{"rule-7", types.NamespacedName{Name: "one"}})
}

// An event of an original concerns a rule that selects it, has a finalizer there or has made its copy; one of a copy, the rule with the
// label, and rules that wait for a name.
func TestEntry_Concerns(t *testing.T) {
	t.Parallel()
	r := rules.Rule{Name: "a", SyncRuleSpec: hubv1.SyncRuleSpec{
		From: hubv1.SyncFromHub, Kind: hubv1.SyncKind{APIVersion: "v1", Kind: "ConfigMap"}, Namespaces: hubv1.SyncNamespaces{Names: []string{"shop"}},
		Objects: hubv1.SyncObjects{Selector: &hubv1.LabelSelector{MatchLabels: map[string]hubv1.LabelValue{"go": "down"}}},
	}}
	selector := r.Selector("edge", nil)
	in := func(namespace, label string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Namespace: namespace, Name: "one", Labels: map[string]string{"go": label}}
	}
	testkit.Equal(t, selector.MaySelect(in("shop", "down")), true, "a selected object")
	testkit.Equal(t, selector.MaySelect(in("shop", "up")), false, "another label")
	testkit.Equal(t, selector.MaySelect(in("office", "down")), false, "another namespace")
	testkit.Equal(t, selector.MaySelect(in("", "down")), false, "no namespace")
	one := testEntry(t)
	testkit.Equal(t, one.isInConflict(), false, "a rule that waits for no name")
	one.report(syncer.Outcome{Key: types.NamespacedName{Name: "one"}, Selected: true, Reason: syncer.ReasonNameConflict})
	testkit.Equal(t, one.isInConflict(), true, "a rule that waits for a name")
}

type reader = client.Reader

// listed is a View of objects in memory.
type listed struct {
	side.View
	reader

	mu  sync.Mutex // protects all
	all map[string]*unstructured.Unstructured
}

func (l *listed) Reader() client.Reader { return l }

func (l *listed) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	into, _ := list.(*unstructured.UnstructuredList)
	for _, one := range l.all {
		into.Items = append(into.Items, *one)
	}
	return nil
}

// change stores an object, or deletes it, and then tells the feed, as an informer does.
func (l *listed) change(ctx context.Context, f *feed, name, revision string) {
	one := emptyOf(namespaceMetadata().GroupVersionKind())
	one.SetName(name)
	one.SetResourceVersion(revision)
	l.mu.Lock()
	if l.all[name] = one; revision == gone {
		delete(l.all, name)
	}
	l.mu.Unlock()
	f.observe(ctx, one, revision == gone)
}

const gone = "gone"

// A rule that joins a running feed while objects change misses nothing: of each object it has the last state.
func TestFeed_Join(t *testing.T) {
	t.Parallel()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[request]())
	defer queue.ShutDown()
	objects := &listed{all: map[string]*unstructured.Unstructured{}}
	f := &feed{view: objects, members: map[*entry]*member{}, synced: make(chan struct{})}
	close(f.synced)
	const changes = 2000
	var writing sync.WaitGroup
	var written atomic.Int32
	writing.Go(func() {
		for i := range changes {
			revision := strconv.Itoa(i)
			if i%7 == 0 {
				revision = gone
			}
			objects.change(t.Context(), f, "object-"+strconv.Itoa(i%5), revision)
			written.Add(1)
		}
	})
	var seen []map[string]string
	for i := range int32(100) {
		for written.Load() < i*changes/100 {
			runtime.Gosched()
		}
		one, last := testEntry(t), map[string]string{} // The lock of the feed protects last.
		one.table = &table{queue: queue}
		one.Kind = hubv1.SyncKind{APIVersion: "v1", Kind: "Namespace"}
		seen = append(seen, last)
		m := &member{of: f, concerns: func(*metav1.ObjectMeta) bool { return true }, Watched: syncer.Watched{
			View: objects,
			Observe: func(_ context.Context, obj client.Object, _ bool) []types.NamespacedName {
				last[obj.GetName()] = obj.GetResourceVersion()
				return nil
			},
		}}
		testkit.Must(t, m.join(t.Context(), one))
	}
	writing.Wait()
	for i, last := range seen {
		for name, one := range objects.all {
			testkit.Equal(t, last[name], one.GetResourceVersion(), i, name)
		}
		for name, revision := range last {
			if objects.all[name] == nil {
				testkit.Equal(t, revision, gone, i, name)
			}
		}
	}
}

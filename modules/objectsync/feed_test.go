// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
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

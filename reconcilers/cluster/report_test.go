// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
)

func TestStatusOf_KeepsWithinTheLimitsOfTheAPI(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 40_000)
	info := but(allWell, func(i *registry.Info) {
		i.Server, i.App.Status, i.App.Message, i.Modules = long, metav1.ConditionFalse, long, nil
		for range 2 * hubv1.MaxModules {
			i.Modules = append(i.Modules, registry.ModuleInfo{Name: "a", Reason: long, Message: long})
		}
	})
	status := statusOf(&hubv1.Cluster{}, good.verdict, info)
	if len(status.Modules) != hubv1.MaxModules || len([]rune(status.Modules[0].Message)) != hubv1.MaxModuleMessageLength ||
		len([]rune(status.Modules[0].Reason)) != hubv1.MaxModuleReasonLength || len([]rune(status.Server)) != hubv1.MaxServerLength {
		t.Errorf("too long: %d modules", len(status.Modules))
	}
	message := meta.FindStatusCondition(status.Conditions, hubv1.ConditionModulesReady).Message
	if n := len([]rune(message)); n != hubv1.MaxConditionMessageLength {
		t.Errorf("a message of %d characters", n)
	}
}

func TestControllersOf_LeavesThoseOutThatRun(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 1000)
	var all []registry.ControllerInfo
	for i := range 2 * hubv1.MaxControllers {
		one := registry.ControllerInfo{Name: fmt.Sprint("runs-", i), State: registry.ModuleRunning}
		if i%8 == 7 {
			one = registry.ControllerInfo{Name: fmt.Sprint("waits-", i, long), State: registry.ModuleWaiting, Reason: long, Message: long}
		}
		all = append(all, one)
	}
	got := controllersOf(all)
	var names []string
	for _, c := range got {
		name, _, _ := strings.Cut(c.Name, "ä")
		names = append(names, name)
		if len([]rune(c.Name)) > hubv1.MaxControllerNameLength || len([]rune(c.Reason)) > hubv1.MaxModuleReasonLength ||
			len([]rune(c.Message)) > hubv1.MaxControllerMessageLength {
			t.Errorf("too long: %+v", c)
		}
	}
	want := []string{"waits-7", "waits-15", "waits-23", "waits-31"}
	for i := range hubv1.MaxControllers - len(want) + 1 {
		if i != 7 {
			want = append(want, fmt.Sprint("runs-", i))
		}
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	if all[0].Name != "runs-0" {
		t.Error("what the registry knows was sorted")
	}
}

func TestWithoutControllers(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, tc := range map[string]struct {
		state  registry.State
		ready  metav1.ConditionStatus
		since  time.Duration
		reason string
		itself hubv1.ModuleState // of the controller
		want   time.Duration     // until they are reported
	}{
		"an app that runs":              {registry.StateReady, metav1.ConditionTrue, 0, hubv1.ReasonReady, hubv1.ModuleRunning, 0},
		"one that has begun to start":   {registry.StateStarting, metav1.ConditionUnknown, 3 * time.Second, hubv1.ReasonStarting, hubv1.ModuleStarting, 7 * time.Second},
		"one that starts for long":      {registry.StateStarting, metav1.ConditionUnknown, 11 * time.Second, hubv1.ReasonStarting, hubv1.ModuleStarting, 0},
		"one with something in its way": {registry.StateStarting, metav1.ConditionFalse, time.Second, hubv1.ReasonForbidden, hubv1.ModuleWaiting, 0},
		"one that failed, and starts again": {
			registry.StateStarting, metav1.ConditionFalse, time.Second, hubv1.ReasonStartFailed, hubv1.ModuleStarting, 9 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := hubv1.ClusterStatus{
				Conditions: []metav1.Condition{{Type: hubv1.ConditionReady, Status: tc.ready, Reason: tc.reason}},
				Modules:    []hubv1.ModuleStatus{{Name: "a", Controllers: []hubv1.ControllerStatus{{Name: "b", State: tc.itself}}}},
			}
			info := registry.Info{State: tc.state, Since: now.Add(-tc.since)}
			if got := withoutControllers(&status, info, now); got != tc.want {
				t.Errorf("look again in %s, want %s", got, tc.want)
			}
			if left := len(status.Modules[0].Controllers) == 0; left != (tc.want > 0) {
				t.Errorf("left out: %t", left)
			}
		})
	}
}

func TestSettles(t *testing.T) {
	t.Parallel()
	now := time.Now()
	info := registry.Info{Since: now.Add(-settleTime / 4)}
	for name, tc := range map[string]struct {
		status metav1.ConditionStatus
		reason string
		want   time.Duration
	}{
		"a start is not reported at once": {metav1.ConditionUnknown, hubv1.ReasonStarting, settleTime * 3 / 4},
		"a pause is":                      {metav1.ConditionUnknown, hubv1.ReasonPaused, 0},
		"a failure is":                    {metav1.ConditionFalse, hubv1.ReasonUnreachable, 0},
		"success is":                      {metav1.ConditionTrue, hubv1.ReasonReady, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := hubv1.ClusterStatus{Conditions: []metav1.Condition{
				{Type: hubv1.ConditionReady, Status: tc.status, Reason: tc.reason},
			}}
			if got := settles(status, info, now); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if got := settles(status, info, now.Add(time.Hour)); got != 0 {
				t.Errorf("after an hour: %s", got)
			}
		})
	}
}

// The message of a Stale app says what is stale, in place of how many modules run, and is that of Ready too.
func TestStatusOf_SaysWhatIsStale(t *testing.T) {
	t.Parallel()
	const message = `module "one": the cached objects of ConfigMap are stale`
	for _, status := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse} {
		info := but(allWell, func(i *registry.Info) {
			i.App = registry.Facet{Status: status, Reason: hubv1.ReasonStale, Message: message}
		})
		conditions := statusOf(&hubv1.Cluster{}, good.verdict, info).Conditions
		modules := meta.FindStatusCondition(conditions, hubv1.ConditionModulesReady)
		ready := meta.FindStatusCondition(conditions, hubv1.ConditionReady)
		if modules.Status != status || modules.Reason != hubv1.ReasonStale || modules.Message != message {
			t.Errorf("%+v", modules)
		}
		if ready.Status != status || ready.Message != message {
			t.Errorf("%+v", ready)
		}
	}
}

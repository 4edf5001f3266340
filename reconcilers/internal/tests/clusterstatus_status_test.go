// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

func TestStatusOf_KeepsWithinTheLimitsOfTheAPI(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 40_000)
	info := but(allWell, func(i *registry.Status) {
		i.Server, i.App.Status, i.App.Message, i.Modules = long, metav1.ConditionFalse, long, nil
		for range 2 * hubv1.MaxModules {
			i.Modules = append(i.Modules, state.ModuleStatus{Name: "a", Reason: long, Message: long})
		}
	})
	status := clusterstatus.Of(&hubv1.Cluster{}, good, info)
	if len(status.Modules) != hubv1.MaxModules || len([]rune(status.Modules[0].Message)) != hubv1.MaxModuleMessageLength ||
		len([]rune(status.Modules[0].Reason)) != hubv1.MaxModuleReasonLength || len([]rune(status.Server)) != hubv1.MaxServerLength {
		t.Errorf("got %d modules, want the limits of the API", len(status.Modules))
	}
	message := meta.FindStatusCondition(status.Conditions, hubv1.ConditionModulesReady).Message
	testkit.Equal(t, len([]rune(message)), hubv1.MaxConditionMessageLength, "characters of the message")
}

func TestControllersOf_LeavesThoseOutThatRun(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 1000)
	var all []state.ControllerStatus
	for i := range 2 * hubv1.MaxControllers {
		one := state.ControllerStatus{Name: fmt.Sprint("runs-", i), State: state.ModuleRunning}
		if i%8 == 7 {
			one = state.ControllerStatus{Name: fmt.Sprint("waits-", i, long), State: state.ModuleWaiting, Reason: long, Message: long}
		}
		all = append(all, one)
	}
	got := clusterstatus.Of(&hubv1.Cluster{}, good, but(allWell, func(i *registry.Status) {
		i.Modules = []state.ModuleStatus{{Name: "one", Controllers: all}}
	})).Modules[0].Controllers
	var names []string
	for _, c := range got {
		name, _, _ := strings.Cut(c.Name, "ä")
		names = append(names, name)
		if len([]rune(c.Name)) > hubv1.MaxControllerNameLength || len([]rune(c.Reason)) > hubv1.MaxModuleReasonLength ||
			len([]rune(c.Message)) > hubv1.MaxControllerMessageLength {
			t.Errorf("the controller exceeds the limits of the API: %+v", c)
		}
	}
	want := []string{"waits-7", "waits-15", "waits-23", "waits-31"}
	for i := range hubv1.MaxControllers - len(want) + 1 {
		if i != 7 {
			want = append(want, fmt.Sprint("runs-", i))
		}
	}
	testkit.Equal(t, names, want)
	testkit.Equal(t, all[0].Name, "runs-0", "Of sorts the status of the registry")
}

// The message of a Stale app names the stale objects in place of the number of modules, and is the message of Ready,
// too.
func TestStatusOf_SaysWhatIsStale(t *testing.T) {
	t.Parallel()
	const message = `module "one": the cached objects of ConfigMap are stale`
	for _, status := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse} {
		info := but(allWell, func(i *registry.Status) {
			i.App = state.Condition{Status: status, Reason: hubv1.ReasonStale, Message: message}
		})
		conditions := clusterstatus.Of(&hubv1.Cluster{}, good, info).Conditions
		modules := meta.FindStatusCondition(conditions, hubv1.ConditionModulesReady)
		ready := meta.FindStatusCondition(conditions, hubv1.ConditionReady)
		if modules.Status != status || modules.Reason != hubv1.ReasonStale || modules.Message != message {
			t.Errorf("got ModulesReady %+v, want the message about stale objects", modules)
		}
		if ready.Status != status || ready.Message != message {
			t.Errorf("got Ready %+v, want the message about stale objects", ready)
		}
	}
}

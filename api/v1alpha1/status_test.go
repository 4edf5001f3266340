// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	hubac "github.com/clusterfx/clusterfx/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// The two field managers of a status apply without force: a conflict would fail the test.
const (
	reconciler = client.FieldOwner("clusterfx-cluster")
	inventory  = client.FieldOwner("clusterfx-inventory")
)

func apply(t *testing.T, c client.Client, name string, by client.FieldOwner, s *hubac.ClusterStatusApplyConfiguration) *hubv1.Cluster {
	t.Helper()
	if err := c.Status().Apply(t.Context(), hubac.Cluster(name).WithStatus(s), by); err != nil {
		t.Fatalf("apply the status as %s: %v", by, err)
	}
	got := &hubv1.Cluster{}
	testkit.Must(t, c.Get(t.Context(), client.ObjectKey{Name: name}, got))

	return got
}

func condition(kind string, status metav1.ConditionStatus, reason string) *metav1ac.ConditionApplyConfiguration {
	return metav1ac.Condition().
		WithType(kind).WithStatus(status).WithReason(reason).
		WithMessage("").WithObservedGeneration(1).WithLastTransitionTime(metav1.Now())
}

func TestStatus_ApplyReplacesTheDefault(t *testing.T) {
	t.Parallel()
	_, c := hub(t)
	create(t, c, "apply-replaces")
	got := apply(t, c, "apply-replaces", reconciler, hubac.ClusterStatus().
		WithObservedGeneration(1).
		WithConditions(
			condition(hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonTimedOut),
			condition(hubv1.ConditionReady, metav1.ConditionFalse, hubv1.ReasonTimedOut),
			condition(hubv1.ConditionStalled, metav1.ConditionTrue, hubv1.ReasonTimedOut),
		))
	if got.Status.ObservedGeneration != 1 || got.Generation != 1 {
		t.Errorf("observedGeneration %d of generation %d, want 1 of 1", got.Status.ObservedGeneration, got.Generation)
	}
	expectConditions(t, got, map[string]string{
		hubv1.ConditionReady:     hubv1.ReasonTimedOut,
		hubv1.ConditionReachable: hubv1.ReasonTimedOut,
		hubv1.ConditionStalled:   hubv1.ReasonTimedOut,
	})

	got = apply(t, c, "apply-replaces", reconciler, hubac.ClusterStatus().
		WithObservedGeneration(1).
		WithConditions(
			condition(hubv1.ConditionReachable, metav1.ConditionTrue, hubv1.ReasonProbeSucceeded),
			condition(hubv1.ConditionReady, metav1.ConditionTrue, hubv1.ReasonReady),
		))
	expectConditions(t, got, map[string]string{
		hubv1.ConditionReady:     hubv1.ReasonReady,
		hubv1.ConditionReachable: hubv1.ReasonProbeSucceeded,
	})
}

// expectConditions fails the test unless the conditions of the Cluster have exactly these reasons.
func expectConditions(t *testing.T, cluster *hubv1.Cluster, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, c := range cluster.Status.Conditions {
		got[c.Type] = c.Reason
	}
	testkit.Equal(t, got, want, "conditions")
}

// counted is a status as the inventory module applies it. Each call returns a new one, because the client decodes the
// server's response into the applied object.
func counted() *hubac.ClusterStatusApplyConfiguration {
	return hubac.ClusterStatus().WithInventory(hubac.InventoryStatus().
		WithNodes(3).WithReadyNodes(0).
		WithAllocatable(hubac.AllocatableStatus().
			WithCPU(resource.MustParse("12")).WithMemory(resource.MustParse("1500Mi"))))
}

func expiry() metav1.Time { return metav1.NewTime(time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)) }

func reported() *hubac.ClusterStatusApplyConfiguration {
	return hubac.ClusterStatus().
		WithObservedGeneration(1).WithID("0b9a").WithServer("https://10.4.0.11:6443").WithVersion("v1.36.3").
		WithCredentials(hubac.CredentialsStatus().
			WithType(hubv1.CredentialToken).WithFingerprint("9b1c").WithExpirationTime(expiry())).
		WithModuleSummary("1/2").
		WithRunner(hubac.RunnerStatus().WithName("hub-0").WithType(hubv1.RunnerHub).WithEpoch(3).WithSince(metav1.Unix(1, 0))).
		WithModules(
			hubac.ModuleStatus().WithName("inventory").WithState(hubv1.ModuleRunning),
			hubac.ModuleStatus().WithName("syncer").WithState(hubv1.ModuleWaiting).
				WithReason("APIMissing").WithMessage("the remote has no such API"),
		).
		WithConditions(condition(hubv1.ConditionReady, metav1.ConditionTrue, hubv1.ReasonReady).
			WithMessage("1 module is running").WithLastTransitionTime(metav1.Unix(1, 0)))
}

func TestStatus_ManagersKeepOutOfEachOthersWay(t *testing.T) {
	t.Parallel()
	_, c := hub(t)
	create(t, c, "two-managers")

	first := apply(t, c, "two-managers", inventory, counted())
	withDefaults := pending()
	withDefaults.Inventory = first.Status.Inventory
	testkit.Equal(t, first.Status, withDefaults, "status after the inventory alone")
	if n := first.Status.Inventory.ReadyNodes; n == nil || *n != 0 {
		t.Errorf("readyNodes: got %v, want an explicit 0", n)
	}

	second := apply(t, c, "two-managers", reconciler, reported())
	if !meta.IsStatusConditionTrue(second.Status.Conditions, hubv1.ConditionReady) {
		t.Error("Ready is not True after the reconciler's apply")
	}
	if got := second.Status.Credentials.ExpirationTime.Time; !got.Equal(expiry().Time) {
		t.Errorf("expirationTime: got %v, want %v", got, expiry())
	}
	testkit.Equal(t, second.Status.Inventory, first.Status.Inventory, "inventory after the reconciler")

	third := apply(t, c, "two-managers", reconciler, reported())
	testkit.Equal(t, third.ResourceVersion, second.ResourceVersion, "applying the same status a second time changes the resourceVersion")

	fourth := apply(t, c, "two-managers", inventory, hubac.ClusterStatus())
	second.Status.Inventory = hubv1.InventoryStatus{}
	testkit.Equal(t, fourth.Status, second.Status, "status after the inventory module drops its fields")
}

// A status with a text that is too long is refused as a whole, so writers cut their texts to the Max constants.
func TestStatus_TooLongIsRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	_, c := hub(t)
	create(t, c, "too-long")
	write := func(n int) error {
		module := hubac.ModuleStatus().WithName("inventory").WithState(hubv1.ModuleFailed).WithMessage(long(n))
		status := hubac.ClusterStatus().WithVersion("v1").WithModules(module)

		return c.Status().Apply(t.Context(), hubac.Cluster("too-long").WithStatus(status), reconciler)
	}
	expectComplaint(t, write(hubv1.MaxModuleMessageLength+1), tooLong("status.modules[0].message", hubv1.MaxModuleMessageLength))
	testkit.NoError(t, write(hubv1.MaxModuleMessageLength))
}

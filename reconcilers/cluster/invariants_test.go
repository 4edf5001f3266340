// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// checkInvariants checks what is true of every status that the hub writes.
func checkInvariants(t testing.TB, c *hubv1.Cluster) {
	t.Helper()
	conditions := c.Status.Conditions
	for _, kind := range []string{
		hubv1.ConditionReady, hubv1.ConditionCredentialsValid, hubv1.ConditionReachable,
		hubv1.ConditionIdentityConfirmed, hubv1.ConditionModulesReady,
	} {
		if one := meta.FindStatusCondition(conditions, kind); one == nil || one.Reason == "" || one.Message == "" {
			t.Errorf("%s: every condition is there and says why: %s = %+v", c.Name, kind, one)
		}
	}
	for _, kind := range []string{hubv1.ConditionReconciling, hubv1.ConditionStalled} {
		if one := meta.FindStatusCondition(conditions, kind); one != nil && one.Status != metav1.ConditionTrue {
			t.Errorf("%s: %s exists while it is True only: %+v", c.Name, kind, one)
		}
	}
	for _, one := range conditions {
		if one.ObservedGeneration != c.Status.ObservedGeneration && one.Type != foreignCondition {
			t.Errorf("%s: %s is about generation %d, the status about %d", c.Name, one.Type, one.ObservedGeneration, c.Status.ObservedGeneration)
		}
	}
	checkSummary(t, c)
}

// checkSummary checks that Ready and the conditions of kstatus agree with the others.
func checkSummary(t testing.TB, c *hubv1.Cluster) {
	t.Helper()
	conditions := c.Status.Conditions
	ready := meta.FindStatusCondition(conditions, hubv1.ConditionReady)
	reconciling := meta.IsStatusConditionTrue(conditions, hubv1.ConditionReconciling)
	stalled := meta.IsStatusConditionTrue(conditions, hubv1.ConditionStalled)
	if !c.DeletionTimestamp.IsZero() {
		return // It says that it is being deleted, whatever else is the case.
	}
	if ready.Reason == hubv1.ReasonPaused || ready.Status == metav1.ConditionTrue {
		if reconciling || stalled {
			t.Errorf("%s: Ready is %s/%s, but Reconciling %t, Stalled %t", c.Name, ready.Status, ready.Reason, reconciling, stalled)
		}
		return
	}
	if reconciling == stalled {
		t.Errorf("%s: Ready is %s/%s, but Reconciling %t, Stalled %t", c.Name, ready.Status, ready.Reason, reconciling, stalled)
	}
	for _, kind := range []string{
		hubv1.ConditionCredentialsValid, hubv1.ConditionReachable,
		hubv1.ConditionIdentityConfirmed, hubv1.ConditionModulesReady,
	} {
		one := meta.FindStatusCondition(conditions, kind)
		lastGood := one.Reason == hubv1.ReasonNotInUse || one.Reason == hubv1.ReasonExpired && strings.Contains(one.Message, "last good")
		if one.Status == metav1.ConditionTrue || lastGood || kind == hubv1.ConditionIdentityConfirmed && one.Reason == hubv1.ReasonForbidden {
			continue
		}
		if ready.Status != one.Status || ready.Reason != one.Reason || ready.Message != one.Message {
			t.Errorf("%s: Ready is %s/%s, the first condition that is not True is %s=%s/%s",
				c.Name, ready.Status, ready.Reason, kind, one.Status, one.Reason)
		}
		return
	}
}

// foreignCondition is a condition that another controller writes.
const foreignCondition = "BackedUp"

func expectCondition(t testing.TB, c *hubv1.Cluster, kind string, status metav1.ConditionStatus) {
	t.Helper()
	if one := meta.FindStatusCondition(c.Status.Conditions, kind); one == nil || one.Status != status {
		t.Errorf("%s: want %s=%s, have %s", c.Name, kind, status, summary(c))
	}
}

// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// checkInvariants checks the rules for every status that the hub writes.
func checkInvariants(t testing.TB, c *hubv1.Cluster) {
	t.Helper()
	conditions := c.Status.Conditions
	for _, kind := range []string{
		hubv1.ConditionReady, hubv1.ConditionCredentialsValid, hubv1.ConditionReachable,
		hubv1.ConditionIdentityConfirmed, hubv1.ConditionModulesReady,
	} {
		if one := meta.FindStatusCondition(conditions, kind); one == nil || one.Reason == "" || one.Message == "" {
			t.Errorf("%s: condition %s needs a reason and a message: %+v", c.Name, kind, one)
		}
	}
	for _, kind := range []string{hubv1.ConditionReconciling, hubv1.ConditionStalled} {
		if one := meta.FindStatusCondition(conditions, kind); one != nil && one.Status != metav1.ConditionTrue {
			t.Errorf("%s: %s exists and is not True: %+v", c.Name, kind, one)
		}
	}
	for _, one := range conditions {
		if one.ObservedGeneration != c.Status.ObservedGeneration && one.Type != foreignCondition {
			t.Errorf("%s: %s has generation %d, want generation %d of the status", c.Name, one.Type, one.ObservedGeneration, c.Status.ObservedGeneration)
		}
	}
	checkSummary(t, c)
}

// checkSummary checks that Ready and the conditions of kstatus agree with the other conditions.
func checkSummary(t testing.TB, c *hubv1.Cluster) {
	t.Helper()
	conditions := c.Status.Conditions
	ready := meta.FindStatusCondition(conditions, hubv1.ConditionReady)
	reconciling := meta.IsStatusConditionTrue(conditions, hubv1.ConditionReconciling)
	stalled := meta.IsStatusConditionTrue(conditions, hubv1.ConditionStalled)
	if !c.DeletionTimestamp.IsZero() {
		return // It reports the deletion, regardless of the other conditions.
	}
	if ready.Reason == hubv1.ReasonPaused || ready.Status == metav1.ConditionTrue {
		if reconciling || stalled {
			t.Errorf("%s: Ready is %s/%s with Reconciling %t and Stalled %t, want false and false", c.Name, ready.Status, ready.Reason, reconciling, stalled)
		}
		return
	}
	if reconciling == stalled {
		t.Errorf("%s: Ready is %s/%s with Reconciling %t and Stalled %t, want one of them", c.Name, ready.Status, ready.Reason, reconciling, stalled)
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
			t.Errorf("%s: Ready is %s/%s, want the first condition that is not True, %s=%s/%s",
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
		t.Errorf("%s: want %s=%s, got %s", c.Name, kind, status, summary(c))
	}
}

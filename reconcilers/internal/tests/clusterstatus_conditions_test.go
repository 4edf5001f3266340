// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

func facet(status metav1.ConditionStatus, reason string) state.Condition {
	return state.Condition{Status: status, Reason: reason, Message: "because of " + reason}
}

var (
	good    = clusterstatus.Credentials{Valid: facet(metav1.ConditionTrue, hubv1.ReasonValid)}
	allWell = registry.Status{
		Name:      "a",
		State:     state.StateReady,
		Reachable: facet(metav1.ConditionTrue, hubv1.ReasonProbeSucceeded),
		Identity:  facet(metav1.ConditionTrue, hubv1.ReasonSameCluster),
		App:       facet(metav1.ConditionTrue, hubv1.ReasonRunning),
		Modules: []state.ModuleStatus{
			{Name: "one", State: state.ModuleRunning}, {Name: "two", State: state.ModuleRunning},
		},
	}
)

// crashLoop is the number of failures in a row after which a person is asked for.
const crashLoop = 5

func but[T any](v T, change func(*T)) T {
	change(&v)
	return v
}

func refused(reason, message string) clusterstatus.Credentials {
	return clusterstatus.Credentials{Valid: state.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}}
}

func TestConditionsOf(t *testing.T) {
	t.Parallel()
	reachable := func(status metav1.ConditionStatus, reason string) registry.Status {
		return but(allWell, func(i *registry.Status) {
			i.Reachable, i.App = facet(status, reason), facet(metav1.ConditionUnknown, hubv1.ReasonPending)
		})
	}
	identity := func(status metav1.ConditionStatus, reason string) registry.Status {
		return but(allWell, func(i *registry.Status) { i.Identity = facet(status, reason) })
	}
	app := func(status metav1.ConditionStatus, reason string) registry.Status {
		return but(allWell, func(i *registry.Status) { i.App = facet(status, reason) })
	}
	with := func(credential string, info registry.Status) registry.Status {
		return but(info, func(i *registry.Status) { i.CredentialName = credential })
	}
	expired := refused(hubv1.ReasonExpired, "late")
	expired.Reported.Fingerprint = "new"
	for name, tc := range map[string]struct {
		change func(*hubv1.Cluster)
		found  clusterstatus.Credentials
		info   registry.Status
		want   string // Ready, then the condition that tools wait for
		also   string // other conditions
	}{
		"everything is as it should be": {found: good, info: allWell, want: "Ready=True/Ready"},
		"credentials that end soon are good": {
			found: clusterstatus.Credentials{Valid: facet(metav1.ConditionTrue, hubv1.ReasonExpiringSoon)}, info: allWell, want: "Ready=True/Ready",
		},
		"a missing Secret may still come": {
			found: refused(hubv1.ReasonSecretNotFound, "none"),
			want:  "Ready=False/SecretNotFound Reconciling=True/ProgressingWithRetry", also: "Reachable=Unknown/Pending",
		},
		"a missing key may still be filled": {
			found: refused(hubv1.ReasonKeyNotFound, "none"),
			want:  "Ready=False/KeyNotFound Reconciling=True/ProgressingWithRetry",
		},
		"a bad Secret waits for a person, also where an app runs": {
			found: refused(hubv1.ReasonInvalidKubeconfig, "bad"), info: allWell,
			want: "Ready=False/InvalidKubeconfig Stalled=True/InvalidKubeconfig", also: "ModulesReady=True/Running",
		},
		"credentials that were expired when they came stop nothing": {
			found: expired, info: with("before", allWell), want: "Ready=True/Ready", also: "CredentialsValid=False/Expired",
		},
		"credentials that expire in use wait for a person": {
			found: expired, info: with("new", allWell), want: "Ready=False/Expired Stalled=True/Expired",
		},
		"the last good credentials are tried again": {
			found: expired, info: with("before", reachable(metav1.ConditionFalse, hubv1.ReasonTimedOut)),
			want: "Ready=False/TimedOut Reconciling=True/ProgressingWithRetry",
		},
		"a first contact is under way": {
			found: good, info: reachable(metav1.ConditionUnknown, hubv1.ReasonPending),
			want: "Ready=Unknown/Pending Reconciling=True/Progressing",
		},
		"an unreachable remote is tried again": {
			found: good, info: reachable(metav1.ConditionFalse, hubv1.ReasonTimedOut),
			want: "Ready=False/TimedOut Reconciling=True/ProgressingWithRetry", also: "ModulesReady=Unknown/Pending",
		},
		"an address that turns out to be forbidden is the credentials' fault": {
			found: good, info: reachable(metav1.ConditionFalse, hubv1.ReasonAddressNotAllowed),
			want: "Ready=False/AddressNotAllowed Stalled=True/AddressNotAllowed",
			also: "CredentialsValid=False/AddressNotAllowed Reachable=Unknown/Pending",
		},
		"another cluster waits for a person": {
			found: good, info: identity(metav1.ConditionFalse, hubv1.ReasonIdentityChanged),
			want: "Ready=False/IdentityChanged Stalled=True/IdentityChanged",
		},
		"an identity that may not be read blocks nothing": {
			found: good, info: identity(metav1.ConditionUnknown, hubv1.ReasonForbidden), want: "Ready=True/Ready",
			also: "IdentityConfirmed=Unknown/Forbidden",
		},
		"modules start": {
			found: good, info: app(metav1.ConditionUnknown, hubv1.ReasonStarting),
			want: "Ready=Unknown/Starting Reconciling=True/Progressing",
		},
		"modules that are warm do not count as ready": {
			found: good,
			info:  but(app(metav1.ConditionUnknown, hubv1.ReasonStarting), func(i *registry.Status) { i.State = state.StateWarm }),
			want:  "Ready=Unknown/Starting Reconciling=True/Progressing", also: "ModulesReady=Unknown/Starting",
		},
		"stale modules that are warm do not count as ready": {
			found: good,
			info:  but(app(metav1.ConditionUnknown, hubv1.ReasonStale), func(i *registry.Status) { i.State = state.StateWarm }),
			want:  "Ready=Unknown/Stale Reconciling=True/Progressing", also: "ModulesReady=Unknown/Stale",
		},
		"a failed module is tried again": {
			found: good, info: app(metav1.ConditionFalse, hubv1.ReasonModuleFailed),
			want: "Ready=False/ModuleFailed Reconciling=True/ProgressingWithRetry",
		},
		"a module that has failed five times in a row waits for a person": {
			found: good, info: but(app(metav1.ConditionFalse, hubv1.ReasonModuleFailed), func(i *registry.Status) { i.Restarts = crashLoop }),
			want: "Ready=False/ModuleFailed Stalled=True/ModuleFailed",
		},
		"a module that runs again after it has failed often": {
			found: good, info: but(allWell, func(i *registry.Status) { i.Restarts = crashLoop }), want: "Ready=True/Ready",
		},
		"what failed often and cannot be reached is tried again": {
			found: good, info: but(reachable(metav1.ConditionFalse, hubv1.ReasonTimedOut), func(i *registry.Status) {
				i.Restarts, i.App = crashLoop, facet(metav1.ConditionFalse, hubv1.ReasonModuleFailed)
			}),
			want: "Ready=False/TimedOut Reconciling=True/ProgressingWithRetry", also: "ModulesReady=False/ModuleFailed",
		},
		"what crashes the hub waits for a person": {
			found: good, info: app(metav1.ConditionFalse, hubv1.ReasonQuarantined),
			want: "Ready=False/Quarantined Stalled=True/Quarantined",
		},
		"credentials that cannot be taken into use wait for a person": {
			found: refused(hubv1.ReasonInvalidKubeconfig, "no"), info: allWell,
			want: "Ready=False/InvalidKubeconfig Stalled=True/InvalidKubeconfig", also: "ModulesReady=True/Running",
		},
		"a pause needs no credentials": {
			change: func(c *hubv1.Cluster) { c.Spec.State = hubv1.ClusterPaused },
			found:  refused(hubv1.ReasonSecretNotFound, "none"), info: allWell,
			want: "Ready=Unknown/Paused", also: "Reachable=Unknown/Paused ModulesReady=Unknown/Paused",
		},
		"the end of a pause waits for credentials": {
			found: refused(hubv1.ReasonSecretNotFound, "none"),
			info: but(allWell, func(i *registry.Status) {
				i.State, i.Reachable = state.StatePaused, facet(metav1.ConditionUnknown, hubv1.ReasonPaused)
			}),
			want: "Ready=False/SecretNotFound Reconciling=True/ProgressingWithRetry", also: "Reachable=Unknown/Pending",
		},
		"a deletion takes its time": {
			change: func(c *hubv1.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
			found:  good, info: allWell, want: "Ready=Unknown/Stopping Reconciling=True/Progressing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := &hubv1.Cluster{}
			if tc.change != nil {
				tc.change(cluster)
			}
			conditions := clusterstatus.Of(cluster, tc.found, tc.info).Conditions
			got := texts(conditions, hubv1.ConditionReady, hubv1.ConditionReconciling, hubv1.ConditionStalled)
			testkit.Equal(t, got, tc.want)
			for _, also := range strings.Fields(tc.also) {
				kind, _, _ := strings.Cut(also, "=")
				testkit.Equal(t, texts(conditions, kind), also)
			}
		})
	}
}

func texts(conditions []metav1.Condition, kinds ...string) string {
	var all []string
	for _, kind := range kinds {
		if c := meta.FindStatusCondition(conditions, kind); c != nil {
			all = append(all, kind+"="+string(c.Status)+"/"+c.Reason)
		}
	}
	return strings.Join(all, " ")
}

func TestConditionsOf_KeepTheTimeOfTheirLastTransition(t *testing.T) {
	t.Parallel()
	cluster := &hubv1.Cluster{}
	cluster.Status.Conditions = clusterstatus.Of(cluster, good, allWell).Conditions
	long := metav1.NewTime(time.Unix(1, 0))
	for i := range cluster.Status.Conditions {
		cluster.Status.Conditions[i].LastTransitionTime = long
	}
	lost := but(allWell, func(i *registry.Status) { i.App = facet(metav1.ConditionFalse, hubv1.ReasonModuleFailed) })
	for _, c := range clusterstatus.Of(cluster, good, lost).Conditions {
		changed := c.Type == hubv1.ConditionReady || c.Type == hubv1.ConditionModulesReady || c.Type == hubv1.ConditionReconciling
		if kept := c.LastTransitionTime.Equal(&long); kept == changed {
			t.Errorf("%s=%s has transition time %s", c.Type, c.Status, c.LastTransitionTime)
		}
	}
}

// A hold of deletes outlives the hub that has shown it: until the next hub has read the holds, the condition stays as it is.
func TestConditionsOf_KeepAHoldUntilItIsKnown(t *testing.T) {
	t.Parallel()
	held := state.Condition{Status: metav1.ConditionTrue, Reason: hubv1.ReasonLimitExceeded, Message: "held"}
	cluster := &hubv1.Cluster{}
	for i, tc := range []struct {
		now  state.Condition
		want string
	}{
		{state.Condition{Status: metav1.ConditionUnknown}, ""},
		{held, "held"},
		{state.Condition{Status: metav1.ConditionUnknown}, "held"},
		{state.Condition{}, ""},
		{state.Condition{Status: metav1.ConditionUnknown}, ""},
	} {
		cluster.Status.Conditions = clusterstatus.Of(cluster, good, registry.Status{DeletesHeld: tc.now}).Conditions
		got := ""
		if c := meta.FindStatusCondition(cluster.Status.Conditions, hubv1.ConditionDeletesHeld); c != nil {
			got = c.Message
		}
		testkit.Equal(t, got, tc.want, "step", i, "the condition says")
	}
}

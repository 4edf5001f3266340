// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
)

func facet(status metav1.ConditionStatus, reason string) registry.Facet {
	return registry.Facet{Status: status, Reason: reason, Message: "because of " + reason}
}

var (
	good    = credentials{valid: facet(metav1.ConditionTrue, hubv1.ReasonValid)}
	allWell = registry.Info{
		Name:      "a",
		State:     registry.StateReady,
		Reachable: facet(metav1.ConditionTrue, hubv1.ReasonProbeSucceeded),
		Identity:  facet(metav1.ConditionTrue, hubv1.ReasonSameCluster),
		App:       facet(metav1.ConditionTrue, hubv1.ReasonRunning),
		Modules: []registry.ModuleInfo{
			{Name: "one", State: registry.ModuleRunning}, {Name: "two", State: registry.ModuleRunning},
		},
	}
)

// but returns a changed copy.
func but[T any](v T, change func(*T)) T {
	change(&v)
	return v
}

func TestConditionsOf(t *testing.T) {
	t.Parallel()
	reachable := func(status metav1.ConditionStatus, reason string) registry.Info {
		return but(allWell, func(i *registry.Info) {
			i.Reachable, i.App = facet(status, reason), facet(metav1.ConditionUnknown, hubv1.ReasonPending)
		})
	}
	identity := func(status metav1.ConditionStatus, reason string) registry.Info {
		return but(allWell, func(i *registry.Info) { i.Identity = facet(status, reason) })
	}
	app := func(status metav1.ConditionStatus, reason string) registry.Info {
		return but(allWell, func(i *registry.Info) { i.App = facet(status, reason) })
	}
	for name, tc := range map[string]struct {
		change func(*hubv1.Cluster)
		found  credentials
		info   registry.Info
		want   string // of Ready, then the condition that tools wait for
		also   string // another condition
	}{
		"everything is as it should be": {found: good, info: allWell, want: "Ready=True/Ready"},
		"credentials that end soon are good": {
			found: accepted(hubv1.ReasonExpiringSoon, "soon", time.Time{}), info: allWell, want: "Ready=True/Ready",
		},
		"a missing Secret may still come": {
			found: refused(hubv1.ReasonSecretNotFound, "none"),
			want:  "Ready=False/SecretNotFound Reconciling=True/ProgressingWithRetry", also: "Reachable=Unknown/Pending",
		},
		"a missing key may still be filled": {
			found: refused(hubv1.ReasonKeyNotFound, "none"),
			want:  "Ready=False/KeyNotFound Reconciling=True/ProgressingWithRetry",
		},
		"a bad Secret waits for somebody, also where an app runs": {
			found: refused(hubv1.ReasonInvalidKubeconfig, "bad"), info: allWell,
			want: "Ready=False/InvalidKubeconfig Stalled=True/InvalidKubeconfig", also: "ModulesReady=True/Running",
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
		"another cluster waits for somebody": {
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
		"a failed module is tried again": {
			found: good, info: app(metav1.ConditionFalse, hubv1.ReasonModuleFailed),
			want: "Ready=False/ModuleFailed Reconciling=True/ProgressingWithRetry",
		},
		"a pause needs no credentials": {
			change: func(c *hubv1.Cluster) { c.Spec.State = hubv1.ClusterPaused },
			found:  refused(hubv1.ReasonSecretNotFound, "none"), info: allWell,
			want: "Ready=Unknown/Paused", also: "Reachable=Unknown/Paused ModulesReady=Unknown/Paused",
		},
		"the end of a pause waits for credentials": {
			found: refused(hubv1.ReasonSecretNotFound, "none"),
			info:  but(allWell, func(i *registry.Info) { i.State, i.Reachable = registry.StatePaused, pausedFacet() }),
			want:  "Ready=False/SecretNotFound Reconciling=True/ProgressingWithRetry", also: "Reachable=Unknown/Pending",
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
			conditions := conditionsOf(cluster, stepsOf(cluster, tc.found, tc.info))
			got := texts(conditions, hubv1.ConditionReady, hubv1.ConditionReconciling, hubv1.ConditionStalled)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			for _, also := range strings.Fields(tc.also) {
				kind, _, _ := strings.Cut(also, "=")
				if diff := cmp.Diff(also, texts(conditions, kind)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// texts returns the conditions of these types that exist.
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
	cluster.Status.Conditions = conditionsOf(cluster, stepsOf(cluster, good, allWell))
	long := metav1.NewTime(time.Unix(1, 0))
	for i := range cluster.Status.Conditions {
		cluster.Status.Conditions[i].LastTransitionTime = long
	}
	lost := but(allWell, func(i *registry.Info) { i.Reachable = facet(metav1.ConditionFalse, hubv1.ReasonTimedOut) })
	for _, c := range conditionsOf(cluster, stepsOf(cluster, good, lost)) {
		changed := c.Type == hubv1.ConditionReady || c.Type == hubv1.ConditionReachable || c.Type == hubv1.ConditionReconciling
		if kept := c.LastTransitionTime.Equal(&long); kept == changed {
			t.Errorf("%s=%s since %s", c.Type, c.Status, c.LastTransitionTime)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		expires time.Time
		reason  string
		next    time.Duration // until it is judged again
	}{
		"never":             {time.Time{}, hubv1.ReasonValid, 0},
		"in a month":        {now.Add(30 * 24 * time.Hour), hubv1.ReasonValid, time.Hour},
		"soon to be warned": {now.Add(expiryWarning + time.Minute), hubv1.ReasonValid, time.Minute},
		"in a week":         {now.Add(expiryWarning), hubv1.ReasonExpiringSoon, time.Hour},
		"in a second":       {now.Add(time.Second), hubv1.ReasonExpiringSoon, time.Second},
		"now":               {now, hubv1.ReasonExpired, time.Hour}, // should the clock be set back
		"some time ago":     {now.Add(-time.Hour), hubv1.ReasonExpired, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := judge(tc.expires, now, client.ObjectKey{Namespace: "ns", Name: "a"})
			if got.valid.Reason != tc.reason || got.changesIn(now) != tc.next || got.usable() != (tc.reason != hubv1.ReasonExpired) {
				t.Errorf("%+v, changes in %s", got.valid, got.changesIn(now))
			}
		})
	}
}

func TestIdentityToRecord(t *testing.T) {
	t.Parallel()
	confirmed := facet(metav1.ConditionTrue, hubv1.ReasonFirstContact)
	for name, tc := range map[string]struct {
		known, accepted string
		info            registry.Info
		want            string
	}{
		"the first contact is recorded":        {"", "", registry.Info{ID: "new", Identity: confirmed}, "new"},
		"the same cluster is not":              {"new", "", registry.Info{ID: "new", Identity: confirmed}, ""},
		"an unknown one is not":                {"", "", registry.Info{Identity: confirmed}, ""},
		"a refused one is not":                 {"", "", registry.Info{ID: "new", Identity: facet(metav1.ConditionFalse, "IsHub")}, ""},
		"an accepted one replaces the old one": {"old", "new", registry.Info{ID: "new", Identity: confirmed}, "new"},
		"one that was not accepted does not":   {"old", "other", registry.Info{ID: "new", Identity: confirmed}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				hubv1.AnnotationID: tc.known, hubv1.AnnotationAcceptID: tc.accepted,
			}}}
			if got := identityToRecord(cluster, tc.info); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	status := func(found credentials, info registry.Info) hubv1.ClusterStatus {
		return statusOf(&hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Generation: 1}}, found, info)
	}
	fresh := hubv1.ClusterStatus{ObservedGeneration: -1}
	calm := status(good, allWell)
	lost := status(good, but(allWell, func(i *registry.Info) { i.Reachable = facet(metav1.ConditionFalse, hubv1.ReasonTimedOut) }))
	silent := status(good, but(allWell, func(i *registry.Info) { i.Reachable = facet(metav1.ConditionFalse, hubv1.ReasonUnreachable) }))
	bad := status(refused(hubv1.ReasonTooLarge, "bad"), allWell)
	for name, tc := range map[string]struct {
		before, after hubv1.ClusterStatus
		want          []string
	}{
		"a new Cluster is registered":       {fresh, calm, []string{"Normal Registered", "Normal Ready"}},
		"nothing happens":                   {calm, calm, nil},
		"a remote is lost":                  {calm, lost, []string{"Warning TimedOut"}},
		"it is lost in another way":         {lost, silent, []string{"Warning Unreachable"}},
		"it is back":                        {lost, calm, []string{"Normal Ready"}},
		"a Secret is bad":                   {calm, bad, []string{"Warning TooLarge"}},
		"a message alone is not worth much": {lost, but(lost, func(s *hubv1.ClusterStatus) { s.Version = "v2" }), nil},
		"credentials are replaced": {
			but(calm, func(s *hubv1.ClusterStatus) { s.Credentials.Fingerprint = "a" }),
			but(calm, func(s *hubv1.ClusterStatus) { s.Credentials.Fingerprint = "b" }),
			[]string{"Normal CredentialsRotated"},
		},
		"another identity is accepted": {
			but(calm, func(s *hubv1.ClusterStatus) { s.ID = "a" }),
			but(calm, func(s *hubv1.ClusterStatus) { s.ID = "b" }),
			[]string{"Normal IdentityAccepted"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, one := range transitions(tc.before, tc.after) {
				got = append(got, one.kind+" "+one.reason)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStatusOf_KeepsWithinTheLimitsOfTheAPI(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 40_000)
	info := but(allWell, func(i *registry.Info) {
		i.Server, i.App.Status, i.App.Message, i.Modules = long, metav1.ConditionFalse, long, nil
		for range 2 * hubv1.MaxModules {
			i.Modules = append(i.Modules, registry.ModuleInfo{Name: "a", Reason: long, Message: long})
		}
	})
	status := statusOf(&hubv1.Cluster{}, good, info)
	if len(status.Modules) != hubv1.MaxModules || len([]rune(status.Modules[0].Message)) != hubv1.MaxModuleMessageLength ||
		len([]rune(status.Modules[0].Reason)) != hubv1.MaxModuleReasonLength || len([]rune(status.Server)) != hubv1.MaxServerLength {
		t.Errorf("too long: %d modules", len(status.Modules))
	}
	message := meta.FindStatusCondition(status.Conditions, hubv1.ConditionModulesReady).Message
	if n := len([]rune(message)); n != hubv1.MaxConditionMessageLength {
		t.Errorf("a message of %d characters", n)
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

func TestStamp(t *testing.T) {
	t.Parallel()
	secret := func(labels string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: "s", UID: "u", Annotations: map[string]string{hubv1.AnnotationClusterLabels: labels},
		}}
	}
	cluster := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Labels:      map[string]string{"theirs": "x"},
		Annotations: map[string]string{hubv1.AnnotationSecretMissingSince: "2026-05-01T00:00:00Z"},
	}}
	for _, step := range []struct {
		labels string
		want   map[string]string
		bad    bool
	}{
		{labels: "a=1, b=2", want: map[string]string{"theirs": "x", "a": "1", "b": "2"}},
		{labels: "b=3", want: map[string]string{"theirs": "x", "b": "3"}},
		{labels: "b", want: map[string]string{"theirs": "x", "b": "3"}, bad: true},
		{labels: "", want: map[string]string{"theirs": "x"}},
	} {
		before := maps.Clone(cluster.Annotations)
		if err := stamp(cluster, secret(step.labels)); (err != nil) != step.bad {
			t.Errorf("%q: %v", step.labels, err)
		}
		if diff := cmp.Diff(step.want, cluster.Labels); diff != "" {
			t.Errorf("%q: %s", step.labels, diff)
		}
		if step.bad && !maps.Equal(before, cluster.Annotations) {
			t.Errorf("%q: annotations = %v", step.labels, cluster.Annotations)
		}
	}
	want := map[string]string{hubv1.AnnotationSecretName: "s", hubv1.AnnotationSecretUID: "u"}
	if diff := cmp.Diff(want, cluster.Annotations); diff != "" {
		t.Error(diff)
	}
	if cluster.Spec.KubeconfigSecretRef.Name != "s" {
		t.Errorf("spec = %+v", cluster.Spec)
	}
	if wantedName(secretMetadata()) != "" {
		t.Error("a Secret without the label asks for a Cluster")
	}
}

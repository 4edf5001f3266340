// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry"
)

func facet(status metav1.ConditionStatus, reason string) registry.Facet {
	return registry.Facet{Status: status, Reason: reason, Message: "because of " + reason}
}

var (
	good    = credentials{verdict: verdict{valid: facet(metav1.ConditionTrue, hubv1.ReasonValid)}}
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
	with := func(credential string, info registry.Info) registry.Info {
		return but(info, func(i *registry.Info) { i.CredentialName = credential })
	}
	expired := refused(hubv1.ReasonExpired, "late")
	expired.status.Fingerprint = "new"
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
		"credentials that were expired when they came stop nothing": {
			found: expired, info: with("before", allWell), want: "Ready=True/Ready", also: "CredentialsValid=False/Expired",
		},
		"credentials that expire in use wait for somebody": {
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
		"a module that has failed five times in a row waits for somebody": {
			found: good, info: but(app(metav1.ConditionFalse, hubv1.ReasonModuleFailed), func(i *registry.Info) { i.Restarts = crashLoop }),
			want: "Ready=False/ModuleFailed Stalled=True/ModuleFailed",
		},
		"a module that runs again after it has failed often": {
			found: good, info: but(allWell, func(i *registry.Info) { i.Restarts = crashLoop }), want: "Ready=True/Ready",
		},
		"what failed often and cannot be reached is tried again": {
			found: good, info: but(reachable(metav1.ConditionFalse, hubv1.ReasonTimedOut), func(i *registry.Info) {
				i.Restarts, i.App = crashLoop, facet(metav1.ConditionFalse, hubv1.ReasonModuleFailed)
			}),
			want: "Ready=False/TimedOut Reconciling=True/ProgressingWithRetry", also: "ModulesReady=False/ModuleFailed",
		},
		"what crashes the hub waits for somebody": {
			found: good, info: app(metav1.ConditionFalse, hubv1.ReasonQuarantined),
			want: "Ready=False/Quarantined Stalled=True/Quarantined",
		},
		"credentials that cannot be taken into use wait for somebody": {
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
			conditions := conditionsOf(cluster, stepsOf(cluster, tc.found.verdict, tc.info))
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
	cluster.Status.Conditions = conditionsOf(cluster, stepsOf(cluster, good.verdict, allWell))
	long := metav1.NewTime(time.Unix(1, 0))
	for i := range cluster.Status.Conditions {
		cluster.Status.Conditions[i].LastTransitionTime = long
	}
	lost := but(allWell, func(i *registry.Info) { i.App = facet(metav1.ConditionFalse, hubv1.ReasonModuleFailed) })
	for _, c := range conditionsOf(cluster, stepsOf(cluster, good.verdict, lost)) {
		changed := c.Type == hubv1.ConditionReady || c.Type == hubv1.ConditionModulesReady || c.Type == hubv1.ConditionReconciling
		if kept := c.LastTransitionTime.Equal(&long); kept == changed {
			t.Errorf("%s=%s since %s", c.Type, c.Status, c.LastTransitionTime)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		issued, expires time.Time
		reason          string
		next            time.Duration // until it is judged again
	}{
		"never":                        {time.Time{}, time.Time{}, hubv1.ReasonValid, 0},
		"in a month":                   {time.Time{}, now.Add(30 * 24 * time.Hour), hubv1.ReasonValid, time.Hour},
		"soon to be warned":            {time.Time{}, now.Add(expiryWarning + time.Minute), hubv1.ReasonValid, time.Minute},
		"in a week":                    {time.Time{}, now.Add(expiryWarning), hubv1.ReasonExpiringSoon, time.Hour},
		"in a week, of a year":         {now.Add(-358 * 24 * time.Hour), now.Add(expiryWarning), hubv1.ReasonExpiringSoon, time.Hour},
		"half of a day's life is over": {now.Add(-12 * time.Hour), now.Add(12 * time.Hour), hubv1.ReasonValid, time.Hour},
		"a sixth of it is left":        {now.Add(-20 * time.Hour), now.Add(4 * time.Hour), hubv1.ReasonExpiringSoon, time.Hour},
		"issued after its end":         {now.Add(48 * time.Hour), now.Add(time.Hour), hubv1.ReasonExpiringSoon, time.Hour},
		"in a second":                  {time.Time{}, now.Add(time.Second), hubv1.ReasonExpiringSoon, time.Second},
		"now":                          {time.Time{}, now, hubv1.ReasonExpired, time.Hour}, // should the clock be set back
		"some time ago":                {time.Time{}, now.Add(-time.Hour), hubv1.ReasonExpired, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := judge(tc.expires, warningOf(tc.issued, tc.expires), now, client.ObjectKey{Namespace: "ns", Name: "a"})
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

func TestRemarks(t *testing.T) {
	t.Parallel()
	r := &reconciler{settings: Settings{HubID: "hub"}}
	remarked := func(change func(*registry.Info), s registry.Suspicion) registry.Info {
		return r.remarkOn(but(allWell, change), s)
	}
	until := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	quarantined := remarked(func(i *registry.Info) { i.App = facet(metav1.ConditionFalse, hubv1.ReasonQuarantined) },
		registry.Suspicion{Crashes: 3, Until: until})
	for _, part := range []string{"3 times", "2026-05-01T00:00:00Z", hubv1.AnnotationRetry} {
		if !strings.Contains(quarantined.App.Message, part) {
			t.Errorf("the message about a quarantine does not say %q: %s", part, quarantined.App.Message)
		}
	}
	if hub := remarked(func(i *registry.Info) { i.ID = "hub" }, registry.Suspicion{}); hub.Identity.Reason != hubv1.ReasonIsHub {
		t.Errorf("the hub's own cluster is not marked: %+v", hub.Identity)
	}
	for what, change := range map[string]func(*registry.Info){
		"another cluster": func(i *registry.Info) { i.ID = "other" },
		"an unknown one":  func(i *registry.Info) { i.ID = "" },
		"a refused one": func(i *registry.Info) {
			i.ID, i.Identity = "hub", facet(metav1.ConditionFalse, hubv1.ReasonIsHub)
		},
	} {
		if diff := cmp.Diff(but(allWell, change), remarked(change, registry.Suspicion{})); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	in := func(crashes int, state registry.State, ago time.Duration) time.Duration {
		r.suspects = noSuspects{}
		now := until
		return r.weigh(registry.Suspicion{Crashes: crashes}, registry.Info{State: state, Since: now.Add(-ago)}, now)
	}
	if in(0, registry.StateReady, 0) != 0 || in(1, registry.StateStarting, time.Hour) != 0 ||
		in(1, registry.StateReady, time.Second) != provenAfter-time.Second || in(1, registry.StateReady, provenAfter) <= 0 {
		t.Error("a suspect is acquitted at the wrong time")
	}
}

func TestInUse(t *testing.T) {
	t.Parallel()
	before := hubv1.CredentialsStatus{Fingerprint: "before"}
	cluster := &hubv1.Cluster{Status: hubv1.ClusterStatus{Credentials: before}}
	after := but(good, func(c *credentials) { c.status.Fingerprint = "after" })
	none := registry.Facet{}
	for name, tc := range map[string]struct {
		found       credentials
		server      registry.Facet // that is wanted and not in use
		newest      registry.Facet // credentials that are wanted and not in use
		credentials string
		reachable   string
		fingerprint string
	}{
		"everything is in use":             {after, none, none, hubv1.ReasonValid, hubv1.ReasonProbeSucceeded, "after"},
		"the credentials are refused":      {after, none, facet(metav1.ConditionFalse, hubv1.ReasonNotInUse), hubv1.ReasonNotInUse, hubv1.ReasonProbeSucceeded, "before"},
		"the new server does not answer":   {after, facet(metav1.ConditionFalse, hubv1.ReasonTimedOut), none, hubv1.ReasonValid, hubv1.ReasonTimedOut, "before"},
		"the new CA is not the server's":   {after, facet(metav1.ConditionFalse, hubv1.ReasonTLSFailed), none, hubv1.ReasonValid, hubv1.ReasonTLSFailed, "before"},
		"the Secret was not even posted":   {refused("Bad", "x"), facet(metav1.ConditionFalse, hubv1.ReasonTimedOut), none, "Bad", hubv1.ReasonProbeSucceeded, ""},
		"the new server was not tried yet": {after, none, none, hubv1.ReasonValid, hubv1.ReasonProbeSucceeded, "after"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			has := remote{info: but(allWell, func(i *registry.Info) {
				i.NewServer, i.NewCredential, i.CredentialName = tc.server, tc.newest, "after"
				if tc.newest != none {
					i.CredentialName = "before"
				}
			})}
			found, info := has.inUse(tc.found, cluster, client.ObjectKey{Name: "s"})
			if found.valid.Reason != tc.credentials || info.Reachable.Reason != tc.reachable || found.status.Fingerprint != tc.fingerprint {
				t.Errorf("%+v, %+v", found, info.Reachable)
			}
		})
	}
}

func TestSooner(t *testing.T) {
	t.Parallel()
	if sooner(0, 0) != 0 || sooner(1, 0) != 1 || sooner(0, 2) != 2 || sooner(2, 1) != 1 {
		t.Error("zero stands for never")
	}
}

func TestEndOf(t *testing.T) {
	t.Parallel()
	ended := func(err error) *removal { return &removal{err: err} }
	left := &registry.AbandonedError{Name: "a", Steps: []string{"tidy/everything"}, Why: strings.Repeat("it does not answer ", 100)}
	for name, tc := range map[string]struct {
		removing *removal
		want     string
		says     string
		again    bool
	}{
		"there was nothing to do":            {nil, eventDeregistered, "", false},
		"all was done":                       {ended(nil), eventDeregistered, "", false},
		"somebody else was faster":           {ended(registry.ErrNotFound), eventDeregistered, "", false},
		"something was left undone":          {ended(fmt.Errorf("x: %w", left)), eventAbandoned, "tidy/everything", false},
		"the time was over before all was":   {ended(fmt.Errorf("%w: %w", context.DeadlineExceeded, left)), eventAbandoned, "tidy/everything", false},
		"the time was over":                  {ended(fmt.Errorf("x: %w", context.DeadlineExceeded)), eventAbandoned, "fenced", false},
		"the hub ends":                       {ended(fmt.Errorf("x: %w", context.Canceled)), "", "", true},
		"the remote is wanted, for a moment": {ended(registry.ErrSuperseded), "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := endOf(tc.removing)
			if got.Reason != tc.want || !strings.Contains(noteOf(got), tc.says) || (err != nil) != tc.again {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// noteOf returns the note as the event has it.
func noteOf(t hubcontroller.Event) string { return object.Shortened(t.Note, object.MaxNote) }

// The steps come before the cause, however long that is, and as many as there is room for.
func TestEndOf_NamesTheSteps(t *testing.T) {
	t.Parallel()
	var steps []string
	for i := range 100 {
		steps = append(steps, fmt.Sprintf("module-%02d/a-step-of-it", i))
	}
	cause := "dial tcp: " + strings.Repeat("very ", 200) + "far away"
	for name, tc := range map[string]struct {
		steps []string
		want  []string
	}{
		"some":     {steps[:10], steps[:10]},
		"too many": {steps, append(steps[:25:25], " more, see the hub's log; cause: dial tcp")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end, err := endOf(&removal{err: &registry.AbandonedError{Name: "a", Steps: tc.steps, Why: cause}})
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if !strings.Contains(noteOf(end), want) {
					t.Errorf("the event does not say %q: %s", want, noteOf(end))
				}
			}
		})
	}
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	status := func(found credentials, info registry.Info) hubv1.ClusterStatus {
		return statusOf(&hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Generation: 1}}, found.verdict, info)
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
				got = append(got, one.Type+" "+one.Reason)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

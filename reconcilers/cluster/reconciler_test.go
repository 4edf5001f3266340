// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

func facet(status metav1.ConditionStatus, reason string) state.Condition {
	return state.Condition{Status: status, Reason: reason, Message: "because of " + reason}
}

var (
	good    = credentials{Credentials: clusterstatus.Credentials{Valid: facet(metav1.ConditionTrue, hubv1.ReasonValid)}}
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

// but returns a changed copy.
func but[T any](v T, change func(*T)) T {
	change(&v)
	return v
}

func TestJudge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		issued, expires time.Time
		reason          string
		next            time.Duration // until the next check
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
		"now":                          {time.Time{}, now, hubv1.ReasonExpired, time.Hour}, // if the clock is set back
		"some time ago":                {time.Time{}, now.Add(-time.Hour), hubv1.ReasonExpired, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := judge(tc.expires, warningOf(tc.issued, tc.expires), now, client.ObjectKey{Namespace: "ns", Name: "a"})
			if got.Valid.Reason != tc.reason || got.changesIn(now) != tc.next || got.Usable() != (tc.reason != hubv1.ReasonExpired) {
				t.Errorf("got %+v, which changes in %s", got.Valid, got.changesIn(now))
			}
		})
	}
}

func TestIdentityToRecord(t *testing.T) {
	t.Parallel()
	confirmed := facet(metav1.ConditionTrue, hubv1.ReasonFirstContact)
	for name, tc := range map[string]struct {
		known, accepted string
		info            registry.Status
		want            string
	}{
		"the first contact is recorded":        {"", "", registry.Status{ID: "new", Identity: confirmed}, "new"},
		"the same cluster is not":              {"new", "", registry.Status{ID: "new", Identity: confirmed}, ""},
		"an unknown one is not":                {"", "", registry.Status{Identity: confirmed}, ""},
		"a refused one is not":                 {"", "", registry.Status{ID: "new", Identity: facet(metav1.ConditionFalse, "IsHub")}, ""},
		"an accepted one replaces the old one": {"old", "new", registry.Status{ID: "new", Identity: confirmed}, "new"},
		"a refused cluster does not":           {"old", "other", registry.Status{ID: "new", Identity: confirmed}, ""},
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
	remarked := func(change func(*registry.Status)) registry.Status {
		return r.remarkOn(but(allWell, change), &hubv1.Cluster{})
	}
	if hub := remarked(func(i *registry.Status) { i.ID = "hub" }); hub.Identity.Reason != hubv1.ReasonIsHub {
		t.Errorf("the hub's own cluster is not marked: %+v", hub.Identity)
	}
	for what, change := range map[string]func(*registry.Status){
		"another cluster": func(i *registry.Status) { i.ID = "other" },
		"an unknown one":  func(i *registry.Status) { i.ID = "" },
		"a refused one": func(i *registry.Status) {
			i.ID, i.Identity = "hub", facet(metav1.ConditionFalse, hubv1.ReasonIsHub)
		},
	} {
		testkit.Equal(t, remarked(change), but(allWell, change), what)
	}
}

func TestInUse(t *testing.T) {
	t.Parallel()
	before := hubv1.CredentialsStatus{Fingerprint: "before"}
	cluster := &hubv1.Cluster{Status: hubv1.ClusterStatus{Credentials: before}}
	after := but(good, func(c *credentials) { c.Reported.Fingerprint = "after" })
	none := state.Condition{}
	for name, tc := range map[string]struct {
		found       credentials
		server      state.Condition // of a wanted server that is not in use
		newest      state.Condition // of wanted credentials that are not in use
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
			has := remote{info: but(allWell, func(i *registry.Status) {
				i.NewServer, i.NewCredential, i.CredentialName = tc.server, tc.newest, "after"
				if tc.newest != none {
					i.CredentialName = "before"
				}
			})}
			found, info := has.inUse(tc.found, cluster, client.ObjectKey{Name: "s"})
			if found.Valid.Reason != tc.credentials || info.Reachable.Reason != tc.reachable || found.Reported.Fingerprint != tc.fingerprint {
				t.Errorf("got credentials %+v and reachability %+v", found, info.Reachable)
			}
		})
	}
}

func TestSooner(t *testing.T) {
	t.Parallel()
	if sooner(0, 0) != 0 || sooner(1, 0) != 1 || sooner(0, 2) != 2 || sooner(2, 1) != 1 {
		t.Error("sooner does not treat zero as never")
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
		"removed by another caller":          {ended(registry.ErrNotFound), eventDeregistered, "", false},
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
				t.Errorf("got %+v and error %v", got, err)
			}
		})
	}
}

// noteOf returns the note of the recorded event.
func noteOf(t hubcontroller.Event) string { return object.Shortened(t.Note, object.MaxNote) }

// The note has the steps before the cause, regardless of the length of the cause, and as many steps as fit.
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
			testkit.Must(t, err)
			for _, want := range tc.want {
				if !strings.Contains(noteOf(end), want) {
					t.Errorf("the event does not contain %q: %s", want, noteOf(end))
				}
			}
		})
	}
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	status := func(found credentials, info registry.Status) hubv1.ClusterStatus {
		return clusterstatus.Of(&hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Generation: 1}}, found.Credentials, info)
	}
	fresh := hubv1.ClusterStatus{ObservedGeneration: -1}
	calm := status(good, allWell)
	lost := status(good, but(allWell, func(i *registry.Status) { i.Reachable = facet(metav1.ConditionFalse, hubv1.ReasonTimedOut) }))
	silent := status(good, but(allWell, func(i *registry.Status) { i.Reachable = facet(metav1.ConditionFalse, hubv1.ReasonUnreachable) }))
	bad := status(refused(hubv1.ReasonTooLarge, "bad"), allWell)
	for name, tc := range map[string]struct {
		before, after hubv1.ClusterStatus
		want          []string
	}{
		"a new Cluster is registered":       {fresh, calm, []string{"Normal Ready"}},
		"a new Cluster that is not Ready":   {fresh, lost, []string{"Normal Registered", "Warning TimedOut"}},
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
			testkit.Equal(t, got, tc.want)
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

var crashedAt = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

// crashed returns a Cluster with these crashes.
func crashed(t *testing.T, c crashes) *hubv1.Cluster {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Name: "one", Generation: 1, Annotations: map[string]string{hubv1.AnnotationCrashes: string(text), hubv1.AnnotationRetry: "x"},
	}}
}

// The first quarantine lasts a minute, and each further one twice as long. A changed spec and another value of the annotation for a
// retry end it.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	for count, want := range map[int]time.Duration{
		1: time.Minute, 2: 2 * time.Minute, 3: 4 * time.Minute, 11: 1024 * time.Minute, 12: 24 * time.Hour, 1000: 24 * time.Hour,
	} {
		one := crashed(t, crashes{Count: count, Crash: Crash{At: crashedAt}, Generation: 1, Retry: "x"})
		if got := crashesOf(one).until(one); got != crashedAt.Add(want) {
			t.Errorf("%d crashes: got a quarantine of %s, want %s", count, got.Sub(crashedAt), want)
		}
	}
	for what, c := range map[string]crashes{
		"no crash": {}, "another spec": {Count: 1, Crash: Crash{At: crashedAt}, Generation: 2, Retry: "x"}, "a retry": {Count: 1, Crash: Crash{At: crashedAt}, Generation: 1},
	} {
		if one := crashed(t, c); !crashesOf(one).until(one).IsZero() {
			t.Errorf("%s: got a quarantine until %s", what, crashesOf(one).until(one))
		}
	}
	if got := crashesOf(&hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{hubv1.AnnotationCrashes: "{"}}}); got != (crashes{}) {
		t.Errorf("got %+v of an annotation that cannot be decoded", got)
	}
}

// The condition has the time, the evidence and the command that ends the quarantine.
func TestQuarantine_Message(t *testing.T) {
	t.Parallel()
	for evidence, c := range map[string]crashes{
		"a goroutine panicked, of the module quota":   {Count: 2, Crash: Crash{At: crashedAt, Recorded: true, Module: "quota"}},
		"a goroutine panicked, of the module unknown": {Count: 2, Crash: Crash{At: crashedAt, Recorded: true}},
		"this app alone was being started":            {Count: 2, Crash: Crash{At: crashedAt}},
	} {
		got := describeQuarantine(facet(metav1.ConditionFalse, hubv1.ReasonQuarantined), crashed(t, c)).Message
		for _, part := range []string{
			evidence, "Crash 2 ", "2026-05-01T00:00:00Z", "2026-05-01T00:02:00Z",
			"kubectl annotate clusters.clusterfx.dev one --overwrite clusterfx.dev/retry=$(date +%s)",
		} {
			if !strings.Contains(got, part) {
				t.Errorf("the message does not contain %q: %s", part, got)
			}
		}
	}
}

// Panics of two processes are two crashes, in whatever order they are reported, and one that is reported again is none. What the
// journal says of a crash that a process has recorded is none, either.
func TestQuarantine_Counts(t *testing.T) {
	t.Parallel()
	panicked := func(after time.Duration) Crash { return Crash{At: crashedAt.Add(after), Recorded: true} }
	for what, tc := range map[string]struct {
		known crashes
		crash Crash
		want  int
	}{
		"the first":                   {crashes{}, panicked(0), 1},
		"a later one":                 {crashes{Crash: panicked(0), Count: 1}, panicked(time.Second), 2},
		"an earlier one of another":   {crashes{Crash: panicked(time.Second), Count: 1}, panicked(0), 2},
		"the same":                    {crashes{Crash: panicked(0), Count: 1}, panicked(0), 1},
		"the same, by the journal":    {crashes{Crash: panicked(time.Second), Count: 1}, Crash{At: crashedAt}, 1},
		"a later one, by the journal": {crashes{Crash: panicked(0), Count: 1}, Crash{At: crashedAt.Add(time.Hour)}, 2},
	} {
		got := tc.known.with(tc.crash)
		if got.Count != tc.want || got.At.Before(tc.crash.At) || got.At.Before(tc.known.At) {
			t.Errorf("%s: got %+v, want %d crashes, the last one last", what, got, tc.want)
		}
	}
}

// A suspect is acquitted when it was Ready for 5 s, and its crashes are forgotten when it was Ready for ten minutes, or as long as
// its quarantine lasted.
func TestQuarantine_Weigh(t *testing.T) {
	t.Parallel()
	r := &reconciler{suspects: noSuspects{}}
	in := func(s state.CrashRecord, c crashes, stands state.State, ago time.Duration) time.Duration {
		wait, err := r.weigh(t.Context(), crashed(t, c), remote{suspicion: s, info: registry.Status{State: stands, Since: crashedAt.Add(-ago)}}, crashedAt)
		if err != nil {
			t.Error(err)
		}
		return wait
	}
	suspect, guilty := state.CrashRecord{Crashes: 1}, crashes{Count: 1}
	for _, tc := range []struct{ got, want time.Duration }{
		{in(state.CrashRecord{}, crashes{}, state.StateReady, 0), 0},
		{in(suspect, guilty, state.StateStarting, time.Hour), 0},
		{in(suspect, guilty, state.StateReady, time.Second), 4 * time.Second},
		{in(suspect, guilty, state.StateReady, 5*time.Second), time.Millisecond},
		{in(state.CrashRecord{}, guilty, state.StateReady, time.Minute), 9 * time.Minute},
		{in(state.CrashRecord{}, crashes{Count: 6}, state.StateReady, time.Minute), 31 * time.Minute},
	} {
		if tc.got != tc.want {
			t.Errorf("got %s, want %s", tc.got, tc.want)
		}
	}
}

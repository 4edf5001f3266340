// SPDX-License-Identifier: Apache-2.0

package eventseries

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// heard is an event as a recorder received it.
type heard struct{ part, version, note string }

// listener is a recorder that keeps its events.
type listener struct{ all []heard }

func (l *listener) Eventf(
	regarding, _ runtime.Object, _, _, _, note string, args ...any,
) {
	to, _ := regarding.(*corev1.ObjectReference)
	l.all = append(l.all, heard{to.FieldPath, to.ResourceVersion, fmt.Sprintf(note, args...)})
}

// series returns the size of each series that client-go would make, by the first event of the series.
func (l *listener) series() map[heard]int {
	first, all := map[heard]heard{}, map[heard]int{}
	for _, one := range l.all {
		key := heard{part: one.part, version: one.version}
		if _, known := first[key]; !known {
			first[key] = one
		}
		all[first[key]]++
	}
	return all
}

// notes returns the sizes of the series by their visible notes.
func (l *listener) notes() map[string]int {
	all := map[string]int{}
	for one, count := range l.series() {
		all[one.note] += count
	}
	return all
}

func object(version int) *corev1.ConfigMap {
	one := &corev1.ConfigMap{}
	one.Namespace, one.Name, one.ResourceVersion = "default", "a", fmt.Sprint(version)
	return one
}

func TestByNote(t *testing.T) {
	t.Parallel()
	var l listener
	d := ByNote(&l, clientgoscheme.Scheme)
	for version := range 12 { // the state flaps, and each event has another version
		d.Eventf(object(version), nil, "Normal", "Ready", "Reconcile", "%d modules run", version%2+1)
		d.AnnotatedEventf(object(version), nil, nil, "Warning", "Lost", "Reconcile", "gone")
	}
	got := l.notes()
	if len(got) != 3 || got["1 modules run"] != 6 || got["2 modules run"] != 6 || got["gone"] != 12 {
		t.Errorf("got series %v", got)
	}
	if ByNote(d, clientgoscheme.Scheme) != d {
		t.Error("recorder of distinct notes is wrapped a second time")
	}
}

// Notes that are always different do not flood the API server, also with nested recorders.
func TestByNote_AreBounded(t *testing.T) {
	t.Parallel()
	var l listener
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	inner := ByNote(&l, clientgoscheme.Scheme)
	d := ByNote(&struct{ *Recorder }{inner}, clientgoscheme.Scheme)
	d.now, inner.now = func() time.Time { return now }, func() time.Time { return now }
	for n := range 100 {
		d.Eventf(object(n), nil, "Normal", "Counted", "Reconcile", "%d things", n)
	}
	got := l.notes()
	if len(got) != maxNotes+1 || got[combined+"10 things"] != 90 {
		t.Errorf("got series %v", got)
	}
	now = now.Add(noteMemory + time.Second)
	d.Eventf(object(0), nil, "Normal", "Counted", "Reconcile", "at last")
	if l.notes()["at last"] != 1 {
		t.Error("note after a calm time is not a separate event")
	}
	for n := range 2 * maxTopics {
		d.Eventf(object(n), nil, "Normal", fmt.Sprint("Reason", n), "Reconcile", "note")
	}
	if len(d.topics) > maxTopics {
		t.Errorf("recorder remembers %d topics", len(d.topics))
	}
}

// A recorder with the maximum number of topics forgets the topic that was silent for longest, and expired topics; it
// remembers the others.
func TestByNote_ForgetTheOldest(t *testing.T) {
	t.Parallel()
	var l listener
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d := ByNote(&l, clientgoscheme.Scheme)
	d.now = func() time.Time { return now }
	// say records a note about a topic and reports whether the note is a separate event.
	say := func(n int, note string) bool {
		now = now.Add(time.Millisecond)
		d.Eventf(object(0), nil, "Normal", fmt.Sprint("Reason", n), "Reconcile", "%s", note)
		return !strings.HasPrefix(l.all[len(l.all)-1].note, combined)
	}
	for n := range maxTopics {
		for i := range maxNotes {
			say(n, fmt.Sprint("note ", i))
		}
	}
	say(0, "a new note about the oldest topic, which keeps it")
	say(maxTopics, "another topic")
	if len(d.topics) != maxTopics {
		t.Errorf("recorder remembers %d topics", len(d.topics))
	}
	if say(0, "new") || say(2, "new") || say(maxTopics-1, "new") {
		t.Error("recorder has forgotten a topic that is not the oldest")
	}
	if !say(1, "new") {
		t.Error("recorder remembers the topic that was silent for longest")
	}
	now = now.Add(noteMemory + time.Second)
	say(0, "again")
	say(maxTopics+1, "again")
	if len(d.topics) != 2 {
		t.Errorf("recorder remembers %d topics, want 2", len(d.topics))
	}
}

func TestFitNote(t *testing.T) {
	t.Parallel()
	got := fitNote(strings.Repeat("\u00e4", maxNote))
	if len(got) > maxNote || !strings.HasSuffix(got, " ...") || strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("got %d bytes: %s", len(got), got)
	}
}

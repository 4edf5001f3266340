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

// heard is an event as a recorder was given it.
type heard struct{ part, version, note string }

// listener is a recorder that keeps what it hears.
type listener struct{ all []heard }

func (l *listener) Eventf(
	regarding, _ runtime.Object, _, _, _, note string, args ...any,
) {
	to, _ := regarding.(*corev1.ObjectReference)
	l.all = append(l.all, heard{to.FieldPath, to.ResourceVersion, fmt.Sprintf(note, args...)})
}

// series returns how many series client-go would make, each with its first note.
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

// notes returns the notes that can be seen, sorted by nothing.
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
	for version := range 12 { // it flaps, and each time it is another version
		d.Eventf(object(version), nil, "Normal", "Ready", "Reconcile", "%d modules run", version%2+1)
		d.AnnotatedEventf(object(version), nil, nil, "Warning", "Lost", "Reconcile", "gone")
	}
	got := l.notes()
	if len(got) != 3 || got["1 modules run"] != 6 || got["2 modules run"] != 6 || got["gone"] != 12 {
		t.Errorf("series: %v", got)
	}
	if ByNote(d, clientgoscheme.Scheme) != d {
		t.Error("a recorder of distinct notes is wrapped once more")
	}
}

// A note that is never the same does not fill the API server, also behind another such recorder.
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
		t.Errorf("series: %v", got)
	}
	now = now.Add(noteMemory + time.Second)
	d.Eventf(object(0), nil, "Normal", "Counted", "Reconcile", "at last")
	if l.notes()["at last"] != 1 {
		t.Error("a note after a calm time is no event of its own")
	}
	for n := range 2 * maxTopics {
		d.Eventf(object(n), nil, "Normal", fmt.Sprint("Reason", n), "Reconcile", "note")
	}
	if len(d.topics) > maxTopics {
		t.Errorf("%d topics are remembered", len(d.topics))
	}
}

// A recorder that remembers as many topics as it may forgets the one that was silent for longest, and what counts no
// longer; it remembers the others.
func TestByNote_ForgetTheOldest(t *testing.T) {
	t.Parallel()
	var l listener
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d := ByNote(&l, clientgoscheme.Scheme)
	d.now = func() time.Time { return now }
	// say records a note about a topic and returns whether it is an event of its own.
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
		t.Errorf("%d topics are remembered", len(d.topics))
	}
	if say(0, "new") || say(2, "new") || say(maxTopics-1, "new") {
		t.Error("the recorder has forgotten a topic that was not the oldest")
	}
	if !say(1, "new") {
		t.Error("the recorder remembers the topic that was silent for longest")
	}
	now = now.Add(noteMemory + time.Second)
	say(0, "again")
	say(maxTopics+1, "again")
	if len(d.topics) != 2 {
		t.Errorf("%d topics are remembered, though only two count", len(d.topics))
	}
}

func TestFitNote(t *testing.T) {
	t.Parallel()
	got := fitNote(strings.Repeat("\u00e4", maxNote))
	if len(got) > maxNote || !strings.HasSuffix(got, " ...") || strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clusterfx/clusterfx/registry/eventseries"

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
	d := eventseries.ByNote(&l, clientgoscheme.Scheme)
	for version := range 12 { // the state flaps, and each event has another version
		d.Eventf(object(version), nil, "Normal", "Ready", "Reconcile", "%d modules run", version%2+1)
		d.AnnotatedEventf(object(version), nil, nil, "Warning", "Lost", "Reconcile", "gone")
	}
	got := l.notes()
	if len(got) != 3 || got["1 modules run"] != 6 || got["2 modules run"] != 6 || got["gone"] != 12 {
		t.Errorf("got series %v", got)
	}
	if eventseries.ByNote(d, clientgoscheme.Scheme) != d {
		t.Error("recorder of distinct notes is wrapped a second time")
	}
}

// similar begins the note of the series of all further notes of a topic.
const similar = "(combined from similar events): "

// Notes that are always different do not flood the API server, also with nested recorders.
func TestByNote_AreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l listener
		d := eventseries.ByNote(&struct{ *eventseries.Recorder }{eventseries.ByNote(&l, clientgoscheme.Scheme)}, clientgoscheme.Scheme)
		for n := range 100 {
			d.Eventf(object(n), nil, "Normal", "Counted", "Reconcile", "%d things", n)
		}
		if got := l.notes(); len(got) != 11 || got[similar+"10 things"] != 90 {
			t.Errorf("got series %v", got)
		}
		<-time.After(10*time.Minute + time.Second)
		d.Eventf(object(0), nil, "Normal", "Counted", "Reconcile", "at last")
		if l.notes()["at last"] != 1 {
			t.Error("note after a calm time is not a separate event")
		}
	})
}

// A recorder that remembers 1024 topics forgets the topic that was silent for longest, and expired topics; it remembers the others.
func TestByNote_ForgetTheOldest(t *testing.T) {
	t.Parallel()
	const topics = 1024
	synctest.Test(t, func(t *testing.T) {
		var l listener
		d := eventseries.ByNote(&l, clientgoscheme.Scheme)
		// say records a note about a topic and reports whether the note is a separate event.
		say := func(n int, note string) bool {
			<-time.After(time.Millisecond)
			d.Eventf(object(0), nil, "Normal", fmt.Sprint("Reason", n), "Reconcile", "%s", note)
			return !strings.HasPrefix(l.all[len(l.all)-1].note, similar)
		}
		for n := range topics {
			for i := range 10 {
				say(n, fmt.Sprint("note ", i))
			}
		}
		say(0, "a new note about the oldest topic, which keeps it")
		say(topics, "another topic")
		if say(0, "new") || say(2, "new") || say(topics-1, "new") {
			t.Error("recorder has forgotten a topic that is not the oldest")
		}
		if !say(1, "new") {
			t.Error("recorder remembers the topic that was silent for longest")
		}
		<-time.After(10*time.Minute + time.Second)
		if !say(0, "again") {
			t.Error("recorder remembers an expired topic")
		}
	})
}

// A note that is too long for the API server is cut between two characters.
func TestByNote_Fits(t *testing.T) {
	t.Parallel()
	var l listener
	eventseries.ByNote(&l, clientgoscheme.Scheme).Eventf(object(0), nil, "Normal", "Long", "Reconcile", "%s", strings.Repeat("\u00e4", 1024))
	got := l.all[0].note
	if len(got) > 1024 || !strings.HasSuffix(got, " ...") || strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("got %d bytes: %s", len(got), got)
	}
}

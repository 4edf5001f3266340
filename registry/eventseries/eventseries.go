// SPDX-License-Identifier: Apache-2.0

package eventseries

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/reference"
	crrecorder "sigs.k8s.io/controller-runtime/pkg/recorder"
)

// ByNote returns a recorder that makes one series of the events with the same note about an object, and another event
// of each other note. A Recorder is returned as it is.
func ByNote(recorder events.EventRecorder, scheme *runtime.Scheme) *Recorder {
	if already, ok := recorder.(*Recorder); ok {
		return already
	}
	return &Recorder{inner: recorder, scheme: scheme, topics: cache.NewLRUExpireCache(maxTopics)}
}

const (
	// maxNote bytes are what the API server accepts.
	maxNote = 1024
	// maxNotes about one topic are events of their own within noteMemory.
	maxNotes   = 10
	noteMemory = 10 * time.Minute
	// maxTopics are remembered; the topic that was silent for longest goes first.
	maxTopics = 1024
	// combined begins the note of the series of all further notes, as in Kubernetes.
	combined = "(combined from similar events): "
)

// Recorder is a recorder of distinct notes.
type Recorder struct {
	inner  events.EventRecorder
	scheme *runtime.Scheme

	mu     sync.Mutex // held to change a topic
	topics *cache.LRUExpireCache
}

// topic is what client-go makes a series of, without the object's version.
type topic struct {
	regarding, related        corev1.ObjectReference
	eventType, reason, action string
}

type spoken struct {
	digest string
	last   time.Time
}

var _ crrecorder.EventRecorder = (*Recorder)(nil)

// Eventf records an event.
func (d *Recorder) Eventf( //nolint:revive // argument-limit: client-go's interface.
	regarding, related runtime.Object, eventType, reason, action, note string, args ...any,
) {
	d.AnnotatedEventf(regarding, related, nil, eventType, reason, action, note, args...)
}

// AnnotatedEventf records an event with annotations, if the inner recorder can.
func (d *Recorder) AnnotatedEventf( //nolint:revive // argument-limit: client-go's interface.
	regarding, related runtime.Object, annotations map[string]string, eventType, reason, action, note string, args ...any,
) {
	about := topic{eventType: eventType, reason: reason, action: action}
	to, text := d.distinguish(about, regarding, related, fmt.Sprintf(note, args...))
	if inner, ok := d.inner.(events.AnnotatedEventRecorder); ok && annotations != nil {
		inner.AnnotatedEventf(to, related, annotations, eventType, reason, action, "%s", text)
		return
	}
	d.inner.Eventf(to, related, eventType, reason, action, "%s", text)
}

// distinguish leaves an object without a kind to the inner recorder.
func (d *Recorder) distinguish(about topic, regarding, related runtime.Object, note string) (runtime.Object, string) {
	note = fitNote(note)
	to, err := reference.GetReference(d.scheme, regarding)
	if err != nil {
		return regarding, note
	}
	to.ResourceVersion = ""
	about.regarding = *to
	if related != nil {
		if with, err := reference.GetReference(d.scheme, related); err == nil {
			about.related = *with
		}
	}
	to = to.DeepCopy()
	to.ResourceVersion, note = d.mark(about, note)
	return to, note
}

func (d *Recorder) mark(about topic, note string) (mark, text string) {
	if strings.HasPrefix(note, combined) { // another recorder of this kind is in front
		return digestOf(combined), note
	}
	digest, now := digestOf(note), time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	known, _ := d.topics.Get(about)
	notes, _ := known.([]spoken)
	notes = slices.DeleteFunc(notes, func(s spoken) bool { return now.Sub(s.last) > noteMemory })
	i := slices.IndexFunc(notes, func(s spoken) bool { return s.digest == digest })
	isNew := i < 0 && len(notes) < maxNotes
	switch {
	case isNew:
		notes = append(notes, spoken{digest, now})
	case i >= 0:
		notes[i].last = now
	}
	if d.topics.Add(about, notes, noteMemory); !isNew && i < 0 {
		return digestOf(combined), fitNote(combined + note)
	}
	return digest, note
}

// digestOf is a number, as versions are.
func digestOf(note string) string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(note)) // It never fails.
	return strconv.FormatUint(hash.Sum64(), 10)
}

func fitNote(note string) string {
	const more = " ..."
	if len(note) > maxNote {
		note = note[:maxNote-len(more)] + more
	}
	return strings.ToValidUTF8(note, "")
}

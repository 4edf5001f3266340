// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

var errEvent = fmt.Errorf("the server sends an event that is not a watch event: %w", ErrNotKubernetes)

const (
	// maxHeld of an event in JSON is held back until its type is known; of any, if it is rewritten.
	maxHeld = 2 << 20
	// maxSpace before an event is dropped, so that no limit counts it. An API server sends one newline.
	maxSpace = 64 << 10
)

// newEventBody passes events with objects unchanged, gives those with errors another Status, and ends the watch at other
// data.
func newEventBody(body io.ReadCloser, isProtobuf bool, judge eventJudge) io.ReadCloser {
	if isProtobuf {
		return &protobufEvents{ReadCloser: body, judge: judge, types: verdict{own: judge.own}}
	}
	return newJSONEvents(body, judge)
}

type eventJudge struct {
	request *http.Request
	redact  func(text string) string
	own     func(text string) bool
}

func isPlain(kind string) bool {
	switch watch.EventType(kind) {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		return true
	}
	return false
}

func (j eventJudge) status(form string, object []byte) metav1.Status {
	code := http.StatusInternalServerError
	if said, err := decodeStatus(form, object); err == nil && said.Code >= http.StatusBadRequest && said.Code < 600 {
		code = int(said.Code)
	}
	return statusOf(j.request, code, form, object).hide(j.redact)
}

type jsonEvents struct {
	io.ReadCloser
	judge   eventJudge
	outline outline
	types   verdict
	kind    string // the type of the event; empty if it is not known yet
	space   int    // bytes before the event
	held    []byte // of the event
	passed  []byte
	ready   []byte // the part of passed that was not read yet
	err     error  // after that
}

func newJSONEvents(body io.ReadCloser, judge eventJudge) *jsonEvents {
	e := &jsonEvents{ReadCloser: body, judge: judge, types: verdict{own: judge.own}}
	e.outline.found = e.found
	return e
}

func (e *jsonEvents) Read(p []byte) (int, error) {
	for len(e.ready) == 0 && e.err == nil && len(p) > 0 {
		n, err := e.ReadCloser.Read(p)
		if e.ready, e.err = e.read(p[:n]); e.err == nil {
			e.err = err
		}
	}
	n := copy(p, e.ready)
	if e.ready = e.ready[n:]; len(e.ready) > 0 {
		return n, nil
	}
	return n, e.err
}

func (e *jsonEvents) found(m member, text string) error {
	switch {
	case m.name == "type":
		if e.kind != "" || !isPlain(text) && text != string(watch.Error) {
			return errEvent
		}
		e.kind = text
	case m.depth == 2 && m.name == "kind":
		return e.types.typed(metav1.TypeMeta{Kind: text})
	case m.depth == 2 && m.name == "apiVersion":
		return e.types.typed(metav1.TypeMeta{APIVersion: text})
	}
	return nil
}

func (e *jsonEvents) read(piece []byte) ([]byte, error) {
	e.passed = e.passed[:0]
	for len(piece) > 0 {
		if e.outline.depth == 0 && e.kind == "" && len(e.held) == 0 {
			event := bytes.TrimLeft(piece, " \t\r\n")
			e.space += len(piece) - len(event)
			if e.space > maxSpace || len(event) > 0 && event[0] != '{' {
				return e.passed, errEvent
			}
			piece = event
		}
		complete := len(e.passed)
		n, ended, err := e.outline.read(piece)
		if err == nil {
			err = e.take(piece[:n], ended)
		}
		if err != nil {
			return e.passed[:complete], err
		}
		piece = piece[n:]
	}
	return e.passed, nil
}

func (e *jsonEvents) take(piece []byte, ended bool) error {
	if isPlain(e.kind) {
		e.passed = append(append(e.passed, e.held...), piece...)
		e.held = nil
	} else if e.held = append(e.held, piece...); len(e.held) > maxHeld {
		return errEvent
	}
	if !ended {
		return nil
	}
	if e.kind == string(watch.Error) {
		var event struct{ Object json.RawMessage }
		_ = json.Unmarshal(e.held, &event) // Data that is not a Status becomes an empty Status.
		rewritten, err := json.Marshal(map[string]any{"type": watch.Error, "object": e.judge.status(runtime.ContentTypeJSON, event.Object)})
		if err != nil {
			return errEvent
		}
		e.passed = append(append(e.passed, rewritten...), '\n')
	} else if e.kind == "" {
		return errEvent
	}
	e.kind, e.held, e.space = "", nil, 0
	return nil
}

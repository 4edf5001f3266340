// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// protobufEvents judges each event when it is complete.
type protobufEvents struct {
	io.ReadCloser
	judge  eventJudge
	types  verdict
	length [lengthSize]byte
	chunk  *bufio.Reader // of the body; nil while the watch waits for an event
	event  *bytes.Buffer // what was not read yet of the event; nil without one
	err    error         // after that
}

const (
	lengthSize = 4
	// maxEvent is what client-go accepts.
	maxEvent = 16 << 20
	// chunkSize bytes are read at once: each read sends the API server a packet about the space in the buffers, for a few
	// kilobytes as for a chunk.
	chunkSize = 32 << 10
	// maxKept: larger buffers are not used again.
	maxKept = 64 << 10
)

// The buffers of all watches, most of which wait for an event.
//
//nolint:gochecknoglobals // Pools are shared.
var (
	chunks = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, chunkSize) }}
	events = sync.Pool{New: func() any { return new(bytes.Buffer) }}
)

func (e *protobufEvents) Read(p []byte) (int, error) {
	if e.event == nil && e.err == nil {
		e.event, e.err = e.next()
	}
	if e.event == nil {
		return 0, e.err
	}
	n, _ := e.event.Read(p) // It fails without data only.
	if e.event.Len() == 0 {
		if e.event.Cap() <= maxKept {
			events.Put(e.event)
		}
		e.event = nil
	}
	return n, nil
}

// next returns the next event that passes, with its length.
func (e *protobufEvents) next() (*bytes.Buffer, error) {
	if _, err := io.ReadFull(e.body(), e.length[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(e.length[:])
	if size > maxEvent {
		return nil, errEvent
	}
	event, _ := events.Get().(*bytes.Buffer)
	event.Reset()
	event.Write(e.length[:])
	if n, err := event.ReadFrom(io.LimitReader(e.inChunks(), int64(size))); err != nil || n < int64(size) {
		return nil, cmp.Or(err, io.ErrUnexpectedEOF)
	}
	e.release()
	passes, err := e.isUsual(event.Bytes()[lengthSize:])
	switch {
	case err != nil:
		return nil, err
	case passes:
		return event, nil
	case size > maxHeld:
		return nil, errEvent
	}
	rewritten, err := e.rewrite(event.Bytes()[lengthSize:])
	if err != nil {
		return nil, err
	}
	return bytes.NewBuffer(rewritten), nil
}

func (e *protobufEvents) body() io.Reader {
	if e.chunk != nil {
		return e.chunk
	}
	return e.ReadCloser
}

func (e *protobufEvents) inChunks() io.Reader {
	if e.chunk == nil {
		e.chunk, _ = chunks.Get().(*bufio.Reader)
		e.chunk.Reset(e.ReadCloser)
	}
	return e.chunk
}

// release gives back the chunk if all of it was read.
func (e *protobufEvents) release() {
	if e.chunk.Buffered() == 0 {
		e.chunk.Reset(nil)
		chunks.Put(e.chunk)
		e.chunk = nil
	}
}

// isUsual reports whether the event has an object and nothing else, and the object its type and content and nothing that
// changes these.
func (e *protobufEvents) isUsual(event []byte) (bool, error) {
	kind, rest, hasKind := cutField(event, 1)
	object, after, hasObject := cutField(rest, 2)
	raw, more, hasRaw := cutField(object, 1)
	wrapped, isWrapped := bytes.CutPrefix(raw, []byte(protobufPrefix))
	types, rest, isTyped := cutField(wrapped, 1)
	_, rest, hasContent := cutField(rest, 2)
	usual := hasKind && hasObject && hasRaw && isWrapped && isTyped && hasContent
	if !usual || len(after) > 0 || len(more) > 0 || !isPlain(string(kind)) {
		return false, nil
	}
	var of runtime.TypeMeta
	var last runtime.Unknown
	if of.Unmarshal(types) != nil || last.Unmarshal(rest) != nil || last.TypeMeta != (runtime.TypeMeta{}) || len(last.Raw) > 0 {
		return false, errEvent
	}
	return true, e.types.typed(metav1.TypeMeta{Kind: of.Kind, APIVersion: of.APIVersion})
}

func (e *protobufEvents) typed(object []byte) error {
	of, err := open(object)
	if err != nil {
		return errEvent
	}
	return e.types.typed(metav1.TypeMeta{Kind: of.Kind, APIVersion: of.APIVersion})
}

func (e *protobufEvents) rewrite(event []byte) ([]byte, error) {
	var said metav1.WatchEvent
	if said.Unmarshal(event) != nil {
		return nil, errEvent
	}
	if said.Type == string(watch.Error) {
		status := e.judge.status(runtime.ContentTypeProtobuf, said.Object.Raw)
		raw, err := encodeStatus(status)
		if err != nil {
			return nil, errEvent
		}
		said.Object = runtime.RawExtension{Raw: raw}
	} else if !isPlain(said.Type) {
		return nil, errEvent
	} else if err := e.typed(said.Object.Raw); err != nil {
		return nil, err
	}
	rewritten, err := said.Marshal()
	if err != nil {
		return nil, errEvent
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(rewritten))), rewritten...), nil //nolint:gosec // It is at most maxHeld.
}

func encodeStatus(status metav1.Status) ([]byte, error) {
	raw, err := status.Marshal()
	if err != nil {
		return nil, err
	}
	wrapped := runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: statusKind, APIVersion: "v1"}, Raw: raw}
	encoded, err := wrapped.Marshal()
	return append([]byte(protobufPrefix), encoded...), err
}

// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// sized reads at most so many bytes at once, and counts the reads.
type sized struct {
	io.Reader
	most, reads int
}

func (s *sized) Read(p []byte) (int, error) {
	s.reads++
	return s.Reader.Read(p[:min(len(p), s.most)])
}

func TestChunks_PassAllBytesAndTheError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	var buffers Buffers
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes")
		body := bytes.Repeat(want, rapid.IntRange(1, 1000).Draw(t, "times"))
		from := &sized{Reader: io.MultiReader(bytes.NewReader(body), iotest.ErrReader(broken)), most: rapid.IntRange(1, 2*chunkSize).Draw(t, "most")}
		c := &chunks{ReadCloser: io.NopCloser(from), buffers: &buffers}
		into := rapid.IntRange(1, 3*chunkSize).Draw(t, "into")
		var got []byte
		var err error
		for err == nil {
			p := make([]byte, into)
			var n int
			n, err = c.Read(p)
			got = append(got, p[:n]...)
		}
		if !errors.Is(err, broken) || !bytes.Equal(got, body) {
			t.Fatalf("got %d bytes and error %v, want %d bytes and error %v", len(got), err, len(body), broken)
		}
		if c.buffer != nil {
			t.Fatal("a body that was read to its end has a buffer")
		}
	})
}

// A watch that waits for an event has no buffer. The events that have arrived are read at once.
func TestChunks_ReadsManyEventsAtOnce(t *testing.T) {
	t.Parallel()
	const events, size = 10, 2000
	from := &sized{Reader: bytes.NewReader(make([]byte, events*(shortRead+size))), most: 1 << 20}
	c := &chunks{ReadCloser: io.NopCloser(from), buffers: &Buffers{}}
	for i := range events {
		testkit.Must(t, testkit.Err(io.ReadFull(c, make([]byte, shortRead))))
		if i == 0 && c.buffer != nil {
			t.Error("a body of which only the length of an event was read has a buffer")
		}
		testkit.Must(t, testkit.Err(io.ReadFull(c, make([]byte, size))))
	}
	if from.reads != 2 {
		t.Errorf("the body was read %d times, want 2", from.reads)
	}
	if c.buffer != nil {
		t.Error("a body whose events were read has a buffer")
	}
}

// A Chain has buffers for watches in protobuf only: the reader of JSON has a buffer of its own, and waits with a large read.
func TestChain_Buffers(t *testing.T) {
	t.Parallel()
	for form, want := range map[string]bool{"application/vnd.kubernetes.protobuf;stream=watch": true, "application/json": false} {
		c := &Chain{
			Base: ofType(form, "text"), Fence: t.Context(), Timeout: time.Minute, Buffers: &Buffers{},
		}
		response, err := send(t, c, "GET", "/api/v1/pods?watch=1")
		must(t, err)
		body, ok := response.Body.(*boundBody)
		if !ok {
			t.Fatalf("got a body of type %T", response.Body)
		}
		if _, got := body.ReadCloser.(*chunks); got != want {
			t.Errorf("%s: the body has buffers: %t, want %t", form, got, want)
		}
		response.Body.Close()
	}
}

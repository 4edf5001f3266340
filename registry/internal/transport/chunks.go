// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"io"
	"sync"
)

// chunkSize bytes of a watch are read at once. client-go reads the length of an event, and then the event; each read
// sends the API server a packet about the space in the buffers, for a few kilobytes as for a chunk.
const chunkSize = 32 << 10

// Buffers are those of watches, which have one while they read an event. The zero value is ready for any number of
// Chains.
type Buffers struct{ pool sync.Pool }

func (b *Buffers) get() *[chunkSize]byte {
	if free, ok := b.pool.Get().(*[chunkSize]byte); ok {
		return free
	}
	return new([chunkSize]byte)
}

type chunks struct {
	io.ReadCloser
	buffers *Buffers
	buffer  *[chunkSize]byte // nil while ready is empty
	ready   []byte           // data in the buffer that was not read yet
	err     error            // after that
}

// shortRead is the size of an event's length, during which a watch may wait.
const shortRead = 4

func (c *chunks) Read(p []byte) (int, error) {
	switch {
	case len(c.ready) > 0:
	case c.err != nil:
		return 0, c.err
	case len(p) <= shortRead, len(p) >= chunkSize:
		return c.ReadCloser.Read(p)
	default:
		c.buffer = c.buffers.get()
		n, err := c.ReadCloser.Read(c.buffer[:])
		c.ready, c.err = c.buffer[:n], err
	}
	n := copy(p, c.ready)
	if c.ready = c.ready[n:]; len(c.ready) > 0 {
		return n, nil
	}
	c.buffers.pool.Put(c.buffer)
	c.buffer, c.ready = nil, nil
	return n, c.err
}

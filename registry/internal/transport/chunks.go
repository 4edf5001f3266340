// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"io"
	"sync"
)

// chunkSize is how much of a watch is read at once, in bytes. client-go reads the length of an event, and then the event. Each
// read costs more than the bytes that it returns: the connection notifies the API server of the space in its buffers, which is a
// packet for each few kilobytes that are read, and one packet for a chunk.
const chunkSize = 32 << 10

// Buffers are the buffers of watches that are being read. A watch has one while it reads an event, and none while it waits for
// an event. The zero value is ready to use, by any number of Chains.
type Buffers struct{ pool sync.Pool }

func (b *Buffers) get() *[chunkSize]byte {
	if free, ok := b.pool.Get().(*[chunkSize]byte); ok {
		return free
	}
	return new([chunkSize]byte)
}

// chunks reads the body of a watch in chunks.
type chunks struct {
	io.ReadCloser
	buffers *Buffers
	buffer  *[chunkSize]byte // nil while ready is empty
	ready   []byte           // data in the buffer that was not read yet
	err     error            // after that
}

// shortRead is the size of a read during which a watch may wait for the next event. It is that of the length of an event.
const shortRead = 4

// Read reads the next data.
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

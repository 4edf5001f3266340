// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"bytes"
	"io"
	"sync"
)

// prefixWriter prefixes lines. Several may share a writer and its lock. Only one goroutine may use it.
type prefixWriter struct {
	prefix string
	w      io.Writer
	output *sync.Mutex // protects w, so that lines stay whole
	rest   []byte      // the begin of a line whose end was not written yet
}

var _ io.Writer = (*prefixWriter)(nil)

// Write keeps an incomplete line for flush.
func (p *prefixWriter) Write(data []byte) (int, error) {
	p.rest = append(p.rest, data...)
	end := bytes.LastIndexByte(p.rest, '\n') + 1
	var text []byte
	for line := range bytes.Lines(p.rest[:end]) {
		text = append(append(text, p.prefix...), line...)
	}
	p.rest = append([]byte(nil), p.rest[end:]...)
	if len(text) == 0 {
		return len(data), nil
	}
	p.output.Lock()
	defer p.output.Unlock()
	_, err := p.w.Write(text)
	return len(data), err
}

func (p *prefixWriter) flush() {
	if len(p.rest) > 0 {
		_, _ = p.Write([]byte("\n"))
	}
}

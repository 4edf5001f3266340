// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Media types of API servers.
const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
	htmlType     = "text/html; charset=utf-8"
)

// text responds with a body.
func text(code int, contentType, body string) answer {
	return func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// status responds like an API server that refuses a request.
func status(code int, reason, message string) answer {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`,
		message, reason, code)
	return text(code, jsonType, body)
}

// with sets headers before another response.
func with(tell answer, pairs ...string) answer {
	return func(s *Server, w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			w.Header().Add(pairs[i], pairs[i+1])
		}
		tell(s, w, r)
	}
}

// endless responds with head and then block after block, until the client or the server ends it.
func endless(contentType, head, block string) answer {
	return func(s *Server, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		s.flood(w, head, block)
	}
}

// floodBlock is how much is written at once, at least.
const floodBlock = 64 << 10

func (s *Server) flood(w io.Writer, head, block string) {
	if _, err := io.WriteString(w, head); err != nil {
		return
	}
	blocks := bytes.Repeat([]byte(block), max(floodBlock/len(block), 1))
	for {
		select {
		case <-s.done:
			return
		default:
		}
		if _, err := w.Write(blocks); err != nil {
			return
		}
	}
}

// repeated is a text that is long because one part of it comes over and over.
type repeated struct {
	head, part string
	times      int
	tail       string
}

// long responds with such a text.
func long(contentType string, body repeated) answer {
	return func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		body.writeTo(w)
	}
}

func (b repeated) writeTo(w io.Writer) {
	if _, err := io.WriteString(w, b.head); err != nil {
		return
	}
	most := max(floodBlock/len(b.part), 1)
	parts := bytes.Repeat([]byte(b.part), most)
	for left := b.times; left > 0; left -= most {
		if _, err := w.Write(parts[:min(left, most)*len(b.part)]); err != nil {
			return
		}
	}
	_, _ = io.WriteString(w, b.tail)
}

// drip responds with head, and then a byte of filler per interval.
func drip(contentType, head string, filler byte, every time.Duration) answer {
	return func(s *Server, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		if !send(w, head) {
			return
		}
		for s.pause(r.Context(), every) == nil {
			if !send(w, string(filler)) {
				return
			}
		}
	}
}

// send writes and flushes.
func send(w http.ResponseWriter, text string) bool {
	if _, err := io.WriteString(w, text); err != nil {
		return false
	}
	return http.NewResponseController(w).Flush() == nil
}

// silence sends nothing, not even headers.
func silence(s *Server, _ http.ResponseWriter, r *http.Request) { s.forever(r.Context()) }

// abort ends the request without a response: the connection is closed, or the stream reset.
func abort(*Server, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// raw takes over the connection and writes its own response. The script must be for HTTP/1.1.
func raw(tell func(s *Server, conn net.Conn)) answer {
	return func(s *Server, w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			w.WriteHeader(http.StatusHTTPVersionNotSupported)
			return
		}
		if !s.hold(conn) {
			return
		}
		defer s.release(conn)
		tell(s, conn)
	}
}

// literally responds with unchanged bytes, and closes the connection.
func literally(bytes string) answer {
	return raw(func(_ *Server, conn net.Conn) { _, _ = io.WriteString(conn, bytes) })
}

// afterwards has the server write each text that next returns, until the client hangs up.
func (s *Server) afterwards(conn net.Conn, every time.Duration, next func(i int) string) {
	ctx, hungUp := context.WithCancel(context.Background()) //nolint:forbidigo // A hijacked connection has no context.
	defer hungUp()
	s.running.Go(func() {
		defer hungUp()
		_, _ = io.Copy(io.Discard, conn)
	})
	for i := 0; ; i++ {
		if _, err := io.WriteString(conn, next(i)); err != nil {
			return
		}
		if every > 0 && s.pause(ctx, every) != nil {
			return
		}
	}
}

// number is a short way to write one.
func number(i int) string { return strconv.Itoa(i) }

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

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
	htmlType     = "text/html; charset=utf-8"
)

func text(code int, contentType, body string) answer {
	return func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func status(code int, reason, message string) answer {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`,
		message, reason, code)
	return text(code, jsonType, body)
}

func with(tell answer, pairs ...string) answer {
	return func(s *Server, w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			w.Header().Add(pairs[i], pairs[i+1])
		}
		tell(s, w, r)
	}
}

// endless ends with the client or the server.
func endless(contentType, head, block string) answer {
	return func(s *Server, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		s.flood(w, head, block)
	}
}

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

type repeated struct {
	head, part string
	times      int
	tail       string
}

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

// drip sends a part per interval after head.
func drip(head, part string, every time.Duration) answer {
	return func(s *Server, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		if !send(w, head) {
			return
		}
		for s.pause(r.Context(), every) == nil {
			if !send(w, part) {
				return
			}
		}
	}
}

func send(w http.ResponseWriter, text string) bool {
	if _, err := io.WriteString(w, text); err != nil {
		return false
	}
	return http.NewResponseController(w).Flush() == nil
}

// silence sends not even headers.
func silence(s *Server, _ http.ResponseWriter, r *http.Request) { s.forever(r.Context()) }

// The connection is closed, or the stream reset.
func abort(*Server, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// raw takes over the connection. The script must be for HTTP/1.1.
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

// literally closes the connection.
func literally(bytes string) answer {
	return raw(func(_ *Server, conn net.Conn) { _, _ = io.WriteString(conn, bytes) })
}

// afterwards writes each text of next until the client hangs up.
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

func number(i int) string { return strconv.Itoa(i) }

// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"time"
)

// connections misbehave before it comes to HTTP.
func connections() []Script {
	return []Script{
		{Name: "mute after the hello", conn: func(_ *Server, conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }},
		{Name: "no tls", conn: literalConn("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + page)},
		{Name: "tls garbage", conn: literalConn(strings.Repeat("\x16\x03\x03\x40\x00"+strings.Repeat("\xff", 1<<14), 100))},
		{
			Name: "another certificate",
			conn: func(s *Server, conn net.Conn) {
				stranger, err := newAuthority()
				if err != nil {
					return
				}
				_ = tls.Server(conn, stranger.serverTLS("h2", "http/1.1")).HandshakeContext(background())
			},
		},
		{Name: "mute after the handshake", conn: secure(func(_ *Server, conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })},
	}
}

// streams misbehave with the frames of HTTP/2.
func streams() []Script {
	return []Script{
		{Name: "goaway storm", lies: []lie{{everything, adding(1, "Connection", "close")}}}, // after each answer
		{
			Name: "goaway before every answer",
			conn: secure(func(_ *Server, conn net.Conn) {
				if _, err := io.WriteString(conn, settingsFrame+frame(goAwayType, 0, make([]byte, 8))); err == nil {
					_, _ = io.Copy(io.Discard, conn)
				}
			}),
		},
		{Name: "reset storm", lies: []lie{{configMaps, abort}}},
		{
			Name: "ping flood",
			conn: secure(func(s *Server, conn net.Conn) {
				pings := strings.Repeat(frame(pingType, 0, make([]byte, 8)), 10)
				s.afterwards(conn, 10*time.Millisecond, func(i int) string {
					if i == 0 {
						return settingsFrame
					}
					return pings
				})
			}),
		},
		{Name: "continuation flood", conn: secure(func(s *Server, conn net.Conn) { s.continueHeaders(conn) })},
	}
}

func literalConn(bytes string) func(*Server, net.Conn) {
	return func(_ *Server, conn net.Conn) {
		_, _ = conn.Read(make([]byte, 4096))
		_, _ = io.WriteString(conn, bytes)
	}
}

func background() context.Context {
	return context.Background() //nolint:forbidigo // A connection without HTTP has no context.
}

// secure shakes hands, for HTTP/2.
func secure(then func(*Server, net.Conn)) func(*Server, net.Conn) {
	return func(s *Server, conn net.Conn) {
		encrypted := tls.Server(conn, s.authority.serverTLS("h2"))
		if encrypted.HandshakeContext(background()) == nil {
			then(s, encrypted)
		}
	}
}

// Of HTTP/2 frames (RFC 9113), to send wrong ones.
const (
	headersType      = 1
	pingType         = 6
	goAwayType       = 7
	continuationType = 9

	frameHeader   = 9
	preface       = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	settingsFrame = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
)

// frame has no flags.
func frame(kind byte, stream uint32, payload []byte) string {
	b := make([]byte, frameHeader, frameHeader+len(payload))
	b[0], b[1], b[2] = byte(len(payload)>>16), byte(len(payload)>>8), byte(len(payload))
	b[3] = kind
	binary.BigEndian.PutUint32(b[5:], stream)
	return string(append(b, payload...))
}

func (s *Server) continueHeaders(conn net.Conn) {
	if _, err := io.WriteString(conn, settingsFrame); err != nil {
		return
	}
	stream, err := firstRequest(conn)
	if err != nil {
		return
	}
	// ":status: 200" from the static table, then literal headers that are not to be remembered.
	if _, err := io.WriteString(conn, frame(headersType, stream, []byte{0x88})); err != nil {
		return
	}
	line := "\x00\x01x\x7f\x00" + strings.Repeat("x", 127) // of a name of 1 and a value of 127
	more := frame(continuationType, stream, []byte(strings.Repeat(line, 100)))
	s.afterwards(conn, time.Millisecond, func(int) string { return more })
}

func firstRequest(conn net.Conn) (stream uint32, err error) {
	if _, err := io.ReadFull(conn, make([]byte, len(preface))); err != nil {
		return 0, err
	}
	for range 100 {
		var head [frameHeader]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return 0, err
		}
		length := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, conn, length); err != nil {
			return 0, err
		}
		if head[3] == headersType {
			return binary.BigEndian.Uint32(head[5:]), nil
		}
	}
	return 0, errors.New("no request came")
}

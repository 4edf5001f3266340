// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// headers are servers whose headers do not come to an end.
func headers() []Script {
	return []Script{
		{
			Name: "silence", Does: "takes every request and never answers",
			lies: []lie{{everything, silence}},
		},
		{
			Name: "silence for objects", Does: "takes lists and watches and never answers",
			lies: []lie{{configMaps, silence}},
		},
		{
			Name: "dripping headers", Does: "sends a header line every 50 ms and never the last one", http1: true,
			lies: []lie{{everything, raw(func(s *Server, conn net.Conn) {
				s.afterwards(conn, 50*time.Millisecond, func(i int) string {
					if i == 0 {
						return "HTTP/1.1 200 OK\r\n"
					}
					return fmt.Sprintf("X-%d: drip\r\n", i)
				})
			})}},
		},
		{
			Name: "endless headers", Does: "sends header lines as fast as it can and never the last one", http1: true,
			lies: []lie{{configMaps, raw(func(s *Server, conn net.Conn) {
				s.flood(conn, "HTTP/1.1 200 OK\r\n", "X-Flood: "+strings.Repeat("x", 100)+"\r\n")
			})}},
		},
		{
			Name: "endless early hints", Does: "sends informational answers (103) and never the final one",
			lies: []lie{{configMaps, func(s *Server, w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Link", "</style.css>; rel=preload")
				for s.pause(r.Context(), time.Millisecond) == nil {
					w.WriteHeader(http.StatusEarlyHints)
				}
			}}},
		},
		{
			Name: "an upgrade without a request", Does: "switches protocols (101) when asked for lists and watches", http1: true,
			lies: []lie{{configMaps, raw(func(s *Server, conn net.Conn) {
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chaos\r\n\r\n")
				s.flood(conn, "", "chaos ")
			})}},
		},
	}
}

// manyHeaders are servers with oversized or numerous headers.
func manyHeaders() []Script {
	large := with((*Server).tellTheTruth, "X-Large", strings.Repeat("x", 1<<20))
	return []Script{
		{
			Name: "a header of 1 MiB", Does: "adds a header of 1 MiB to every answer",
			lies: []lie{{everything, large}},
		},
		{
			Name: "ten thousand headers", Does: "adds ten thousand headers to every answer",
			lies: []lie{{everything, func(s *Server, w http.ResponseWriter, r *http.Request) {
				for i := range 10_000 {
					w.Header().Set("X-"+number(i), "many")
				}
				s.tellTheTruth(w, r)
			}}},
		},
		{
			Name: "a hundred warnings", Does: "adds a hundred Warning headers to every answer, with tabs and characters that turn text around",
			lies: []lie{{everything, func(s *Server, w http.ResponseWriter, r *http.Request) {
				for i := range 100 {
					w.Header().Add("Warning", fmt.Sprintf("299 - \"\tpay \u202e attention %d\"", i))
				}
				s.tellTheTruth(w, r)
			}}},
		},
		{
			Name: "colourful warnings", Does: "adds Warning headers with control characters to lists", http1: true,
			lies: onLists(literally("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n" +
				strings.Repeat("Warning: 299 - \"\x1b[31mall is well\x07\x00\"\r\n", 100) + "\r\n" + emptyList)),
		},
		{
			Name: "ten thousand warnings", Does: "adds ten thousand Warning headers to lists and watches",
			lies: []lie{{configMaps, func(s *Server, w http.ResponseWriter, r *http.Request) {
				for i := range 10_000 {
					w.Header().Add("Warning", fmt.Sprintf("299 - %q", "pay attention "+number(i)))
				}
				s.tellTheTruth(w, r)
			}}},
		},
	}
}

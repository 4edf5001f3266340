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
		{Name: "silence", lies: []lie{{everything, silence}}},
		{Name: "silence for objects", lies: []lie{{configMaps, silence}}},
		{
			Name: "dripping headers", http1: true,
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
			Name: "endless headers", http1: true,
			lies: []lie{{configMaps, raw(func(s *Server, conn net.Conn) {
				s.flood(conn, "HTTP/1.1 200 OK\r\n", "X-Flood: "+strings.Repeat("x", 100)+"\r\n")
			})}},
		},
		{
			Name: "endless early hints",
			lies: []lie{{configMaps, func(s *Server, w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Link", "</style.css>; rel=preload")
				for s.pause(r.Context(), time.Millisecond) == nil {
					w.WriteHeader(http.StatusEarlyHints)
				}
			}}},
		},
		{
			Name: "an upgrade without a request", http1: true,
			lies: []lie{{configMaps, raw(func(s *Server, conn net.Conn) {
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chaos\r\n\r\n")
				s.flood(conn, "", "chaos ")
			})}},
		},
	}
}

// manyHeaders are servers with oversized or numerous headers.
func manyHeaders() []Script {
	return []Script{
		{Name: "a header of 1 MiB", lies: []lie{{everything, adding(1, "X-Large", strings.Repeat("x", 1<<20))}}},
		{Name: "ten thousand headers", lies: []lie{{everything, adding(10_000, "X-#", "many")}}},
		{Name: "a hundred warnings", lies: []lie{{everything, adding(100, "Warning", "299 - \"\tpay \u202e attention #\"")}}},
		{
			Name: "colourful warnings", http1: true,
			lies: onLists(literally("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n" +
				strings.Repeat("Warning: 299 - \"\x1b[31mall is well\x07\x00\"\r\n", 100) + "\r\n" + emptyList)),
		},
		{Name: "ten thousand warnings", lies: []lie{{configMaps, adding(10_000, "Warning", `299 - "pay attention #"`)}}},
	}
}

// adding tells the truth with more headers, of which # is the number.
func adding(n int, key, value string) answer {
	return func(s *Server, w http.ResponseWriter, r *http.Request) {
		for i := range n {
			numbered := strings.NewReplacer("#", number(i))
			w.Header().Add(numbered.Replace(key), numbered.Replace(value))
		}
		s.tellTheTruth(w, r)
	}
}

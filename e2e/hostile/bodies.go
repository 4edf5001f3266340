// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"net/http"
	"time"
)

// bodies respond to probes with wrong ends. For clients see lists and watches.
func bodies() []Script {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	return []Script{
		{
			Name: "endless readyz", Does: "responds to /readyz with ok, ok, ok and never stops",
			lies: []lie{{at(readyzPath), endless("text/plain", "", "ok ")}},
		},
		{
			Name: "dripping everything", Does: "responds to everything with a space every 50 ms",
			lies: []lie{{everything, drip(jsonType, "{", ' ', 50*time.Millisecond)}},
		},
		{
			Name: "negative length", Does: "announces a body of -1 bytes", http1: true,
			lies: []lie{{everything, literally(head + "Content-Length: -1\r\n\r\n{}")}},
		},
		{
			Name: "two lengths", Does: "announces two different lengths", http1: true,
			lies: []lie{{everything, literally(head + "Content-Length: 2\r\nContent-Length: 200\r\n\r\n{}")}},
		},
		{
			Name: "too short a length", Does: "announces 2 bytes and sends a second answer behind them", http1: true,
			lies: []lie{{everything, literally(head + "Content-Length: 2\r\n\r\n{}" + head + "Content-Length: 2\r\n\r\n{}")}},
		},
		{
			Name: "too long a length", Does: "announces a terabyte and hangs up after two bytes", http1: true,
			lies: []lie{{everything, literally(head + "Content-Length: 1099511627776\r\n\r\n{}")}},
		},
		{
			Name: "no answer", Does: "hangs up on every request",
			lies: []lie{{everything, abort}},
		},
		{
			Name: "wrong types", Does: "responds to everything truthfully, as image/png",
			lies: []lie{{everything, func(s *Server, w http.ResponseWriter, r *http.Request) {
				s.tellTheTruth(&typeChanger{w}, r)
			}}},
		},
	}
}

type typeChanger struct{ http.ResponseWriter }

func (t *typeChanger) WriteHeader(code int) {
	t.Header().Set("Content-Type", "image/png")
	t.ResponseWriter.WriteHeader(code)
}

// Unwrap lets watches be flushed.
func (t *typeChanger) Unwrap() http.ResponseWriter { return t.ResponseWriter }

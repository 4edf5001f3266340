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
		{Name: "endless readyz", lies: []lie{{at(readyzPath), endless("text/plain", "", "ok ")}}},
		{Name: "dripping everything", lies: []lie{{everything, drip("{", " ", 50*time.Millisecond)}}},
		{Name: "negative length", http1: true, lies: []lie{{everything, literally(head + "Content-Length: -1\r\n\r\n{}")}}},
		{Name: "two lengths", http1: true, lies: []lie{{everything, literally(head + "Content-Length: 2\r\nContent-Length: 200\r\n\r\n{}")}}},
		{Name: "too short a length", http1: true, lies: []lie{{everything, literally(head + "Content-Length: 2\r\n\r\n{}" + head + "Content-Length: 2\r\n\r\n{}")}}},
		{Name: "too long a length", http1: true, lies: []lie{{everything, literally(head + "Content-Length: 1099511627776\r\n\r\n{}")}}},
		{Name: "no answer", lies: []lie{{everything, abort}}},
		{
			Name: "wrong types",
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

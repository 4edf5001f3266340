// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// After this event a client has all objects.
const synced = `{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"1",` +
	`"creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"

func event(kind, object string) string {
	return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, object)
}

const oneMap = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"one","namespace":"default","resourceVersion":"%s"}}`

// stream leaves the watch open.
func stream(events ...string) answer {
	return func(s *Server, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		if send(w, strings.Join(events, "")) {
			s.forever(r.Context())
		}
	}
}

// first tells watches that begin with all objects from others.
func first(initial, later answer) []lie { return []lie{{streaming, initial}, {watching, later}} }

func watches() []Script {
	return []Script{
		{Name: "endless frame", lies: []lie{{watching, endless(jsonType, `{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","data":{"x":"`, "x")}}},
		{Name: "endless frame of spaces", lies: []lie{{watching, endless(jsonType, "", " ")}}},
		{Name: "endless frame of lists", lies: []lie{{watching, endless(jsonType, "", "[")}}},
		{Name: "endless frame in protobuf", lies: []lie{{watching, endless(protobufType+";stream=watch", "\xff\xff\xff\xff", "x")}}},
		{Name: "containers in an event", lies: []lie{{watching, containersInEvent(1_000_000)}}},
		{Name: "endless frame later", lies: []lie{{watching, endless(jsonType, synced+`{"type":"ADDED","object":{"kind":"ConfigMap","data":{"x":"`, "x")}}},
		{Name: "watch of no end of objects", lies: []lie{{watching, noEndOfObjects}}},
	}
}

func endings() []Script {
	closed := func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		w.WriteHeader(http.StatusOK)
	}
	return []Script{
		{
			Name: "watch as text",
			lies: []lie{{watching, func(s *Server, w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/plain")
				if send(w, synced) {
					s.forever(r.Context())
				}
			}}},
		},
		{Name: "stream without its end", lies: []lie{{streaming, stream(event("ADDED", fmt.Sprintf(oneMap, "1")))}}},
		{Name: "stream with plain bookmarks", lies: []lie{{streaming, stream(event("ADDED", fmt.Sprintf(oneMap, "1")), bookmark("5"), bookmark("6"))}}},
		{Name: "watch never begins", lies: []lie{{watching, stream()}}},
		{Name: "dripping watch", lies: []lie{{watching, drip("", " ", 50*time.Millisecond)}}},
		{Name: "watch closed at once", lies: []lie{{watching, closed}}},
		{Name: "watch closed after the beginning", lies: first(text(http.StatusOK, jsonType, synced), closed)},
		{
			Name: "watch closed after an event",
			lies: first(text(http.StatusOK, jsonType, synced), text(http.StatusOK, jsonType, event("MODIFIED", fmt.Sprintf(oneMap, "2")))),
		},
		{
			Name: "watch expires forever",
			lies: []lie{{watching, text(http.StatusOK, jsonType, event("ERROR",
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old","code":410}`))}},
		},
	}
}

func noEndOfObjects(s *Server, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", jsonType)
	const before = `{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"default","resourceVersion":"1","name":"no-`
	after := `"},"data":{"x":"` + strings.Repeat("x", 2000) + `"}}}` + "\n"
	for i := 0; ; i++ {
		if !send(w, before+number(i)+after) {
			return
		}
	}
}

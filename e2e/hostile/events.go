// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// events are servers whose watches begin correctly and then send invalid or harmful events.
func events() []Script {
	return []Script{
		{Name: "events of garbage", Does: "sends garbage instead of events", lies: []lie{{watching, stream(synced, "]]garbage[[\n")}}},
		{Name: "events without an object", Does: "sends events without an object", lies: []lie{{watching, stream(synced, `{"type":"ADDED"}`+"\n", `{}`+"\n", `null`+"\n")}}},
		{Name: "events of no type", Does: "sends events of a type that there is not", lies: []lie{{watching, stream(synced, event("EXPLODED", fmt.Sprintf(oneMap, "2")))}}},
		{Name: "events of no name", Does: "sends objects without a name", lies: []lie{{watching, stream(synced,
			event("ADDED", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{}}`), event("MODIFIED", `{"kind":"ConfigMap","apiVersion":"v1"}`),
			event("DELETED", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"never-was"}}`))}}},
		{
			Name: "events of another kind", Does: "sends a thousand Secrets a second where ConfigMaps are watched",
			lies: []lie{{watching, stream1000(synced, event("ADDED", `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s","namespace":"default"}}`))}},
		},
		{
			Name: "bookmarks of nonsense", Does: "sends bookmarks with versions that are no numbers, huge, and go back",
			lies: []lie{{watching, stream(synced, bookmark("banana"), bookmark(strings.Repeat("9", 1000)), bookmark("-1"), bookmark("0&x=y"), bookmark(""))}},
		},
		{
			Name: "bookmark flood", Does: "sends a thousand bookmarks a second",
			lies: []lie{{watching, stream1000(synced, bookmark("2"))}},
		},
		{
			Name: "errors of nonsense", Does: "sends errors with codes and delays that there are not",
			lies: []lie{{watching, func(s *Server, w http.ResponseWriter, r *http.Request) {
				text(http.StatusOK, jsonType, event("ERROR", `{"kind":"Status","apiVersion":"v1","status":"Failure","code":-1,`+
					`"reason":"`+strings.Repeat("R", 100_000)+`","message":"`+strings.Repeat("M\\u001b", 100_000)+`","details":{"retryAfterSeconds":2000000000}}`))(s, w, r)
			}}},
		},
		{
			Name: "the same object over and over", Does: "modifies one object a thousand times a second",
			lies: []lie{{watching, stream1000(synced, event("MODIFIED", fmt.Sprintf(oneMap, "3")))}},
		},
	}
}

func bookmark(version string) string { return event("BOOKMARK", fmt.Sprintf(oneMap, version)) }

// stream1000 responds to a watch with a beginning, and then with a thousand events per second.
func stream1000(begin, one string) answer {
	const batch = 10
	many := strings.Repeat(one, batch)
	return func(s *Server, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		if !send(w, begin) {
			return
		}
		for s.pause(r.Context(), batch*time.Millisecond) == nil {
			if !send(w, many) {
				return
			}
		}
	}
}

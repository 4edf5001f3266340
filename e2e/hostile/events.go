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
		{Name: "events of garbage", lies: []lie{{watching, stream(synced, "]]garbage[[\n")}}},
		{Name: "events without an object", lies: []lie{{watching, stream(synced, `{"type":"ADDED"}`+"\n", `{}`+"\n", `null`+"\n")}}},
		{Name: "events of no type", lies: []lie{{watching, stream(synced, event("EXPLODED", fmt.Sprintf(oneMap, "2")))}}},
		{Name: "events of no name", lies: []lie{{watching, stream(synced,
			event("ADDED", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{}}`), event("MODIFIED", `{"kind":"ConfigMap","apiVersion":"v1"}`),
			event("DELETED", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"never-was"}}`))}}},
		{
			Name: "events of another kind",
			lies: []lie{{watching, thousand(event("ADDED", `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s","namespace":"default"}}`))}},
		},
		{
			Name: "bookmarks of nonsense",
			lies: []lie{{watching, stream(synced, bookmark("banana"), bookmark(strings.Repeat("9", 1000)), bookmark("-1"), bookmark("0&x=y"), bookmark(""))}},
		},
		{Name: "bookmark flood", lies: []lie{{watching, thousand(bookmark("2"))}}},
		{
			Name: "errors of nonsense",
			lies: []lie{{watching, func(s *Server, w http.ResponseWriter, r *http.Request) {
				text(http.StatusOK, jsonType, event("ERROR", `{"kind":"Status","apiVersion":"v1","status":"Failure","code":-1,`+
					`"reason":"`+strings.Repeat("R", 100_000)+`","message":"`+strings.Repeat("M\\u001b", 100_000)+`","details":{"retryAfterSeconds":2000000000}}`))(s, w, r)
			}}},
		},
		{Name: "the same object over and over", lies: []lie{{watching, thousand(event("MODIFIED", fmt.Sprintf(oneMap, "3")))}}},
	}
}

func bookmark(version string) string { return event("BOOKMARK", fmt.Sprintf(oneMap, version)) }

// thousand sends so many events per second after the beginning.
func thousand(one string) answer {
	return drip(synced, strings.Repeat(one, 10), 10*time.Millisecond)
}

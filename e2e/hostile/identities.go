// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"net/http"
	"strings"
)

// identities are servers that lie about who they are.
func identities() []Script {
	const beforeUID = `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"`
	const beforeVersion = `{"major":"1","minor":"36","gitVersion":"v1.36.3`
	return []Script{
		{Name: "no uid", lies: []lie{{at(systemPath), text(http.StatusOK, jsonType, beforeUID+`"}}`)}}},
		{Name: "a uid of 10 MB", lies: []lie{{at(systemPath), long(jsonType, repeated{beforeUID, "u", 10_000_000, `"}}`})}}},
		{Name: "a uid of 100 kB", lies: []lie{{at(systemPath), long(jsonType, repeated{beforeUID, "u", 100_000, `"}}`})}}},
		{
			Name: "another uid each time",
			lies: []lie{{at(systemPath), func(s *Server, w http.ResponseWriter, r *http.Request) {
				text(http.StatusOK, jsonType, fmt.Sprintf(`%s%d"}}`, beforeUID, s.lies.Load()))(s, w, r)
			}}},
		},
		{Name: "a version of 1 MB", lies: []lie{{at(versionPath), long(jsonType, repeated{beforeVersion, "9", 1_000_000, `"}`})}}},
		{Name: "a version of 100 kB", lies: []lie{{at(versionPath), long(jsonType, repeated{beforeVersion, "9", 100_000, `"}`})}}},
		{Name: "a version to look at", lies: []lie{{at(versionPath), text(http.StatusOK, jsonType, beforeVersion+`\u001b[2J\n\u0000READY=True\u202e"}`)}}},
		{Name: "a nested version", lies: []lie{{at(versionPath), text(http.StatusOK, jsonType, `{"gitVersion":`+strings.Repeat("[", 100_000))}}},
	}
}

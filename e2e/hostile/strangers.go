// SPDX-License-Identifier: Apache-2.0

package hostile

import "net/http"

const page = `<!doctype html><html><head><title>Welcome</title></head><body><h1>It works!</h1></body></html>`

// strangers are servers that are no API servers, or not everywhere.
func strangers() []Script {
	html := text(http.StatusOK, htmlType, page)
	return []Script{
		{
			Name: "html everywhere", Does: "responds to everything with 200 and a page of HTML",
			lies: []lie{{everything, html}},
		},
		{
			Name: "html readyz", Does: "responds to /readyz with 200 and a page of HTML",
			lies: []lie{{at(readyzPath), html}},
		},
		{
			Name: "html version", Does: "responds to /version with 200 and a page of HTML",
			lies: []lie{{at(versionPath), html}},
		},
		{
			Name: "html discovery", Does: "responds to discovery with 200 and a page of HTML",
			lies: []lie{{discovery, html}},
		},
		{
			Name: "html objects", Does: "responds to lists and watches with 200 and a page of HTML",
			lies: []lie{{configMaps, html}},
		},
		{
			Name: "nothing everywhere", Does: "responds to everything with 200, no type and no body",
			lies: []lie{{everything, func(_ *Server, w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = nil
				w.WriteHeader(http.StatusOK)
			}}},
		},
		{
			Name: "nothing for objects", Does: "responds to lists and watches with 200, no type and no body",
			lies: []lie{{configMaps, func(_ *Server, w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = nil
				w.WriteHeader(http.StatusOK)
			}}},
		},
	}
}

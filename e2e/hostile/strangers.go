// SPDX-License-Identifier: Apache-2.0

package hostile

import "net/http"

const page = `<!doctype html><html><head><title>Welcome</title></head><body><h1>It works!</h1></body></html>`

// strangers are servers that are no API servers, or not everywhere.
func strangers() []Script {
	html := text(http.StatusOK, htmlType, page)
	return []Script{
		{Name: "html everywhere", lies: []lie{{everything, html}}},
		{Name: "html readyz", lies: []lie{{at(readyzPath), html}}},
		{Name: "html version", lies: []lie{{at(versionPath), html}}},
		{Name: "html discovery", lies: []lie{{discovery, html}}},
		{Name: "html objects", lies: []lie{{configMaps, html}}},
		{Name: "nothing everywhere", lies: []lie{{everything, nothing}}},
		{Name: "nothing for objects", lies: []lie{{configMaps, nothing}}},
	}
}

// nothing has no type and no body.
func nothing(_ *Server, w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = nil
	w.WriteHeader(http.StatusOK)
}

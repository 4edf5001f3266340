// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
)

const discoveryType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

const (
	groupsHead = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[`
	groupHead  = `{"metadata":{"name":"%s"},"versions":[{"version":"v1","freshness":"Current","resources":[`
	groupTail  = `]}]}`
	groupsTail = `]}`
)

func resource(name string) string {
	return fmt.Sprintf(`{"resource":"%[1]s","responseKind":{"group":"","version":"v1","kind":"K%[1]s"},`+
		`"scope":"Namespaced","singularResource":"s%[1]s","verbs":["list"]}`, name)
}

func document(group string, resources ...string) string {
	body := groupsHead + fmt.Sprintf(groupHead, group)
	for i, one := range resources {
		if i > 0 {
			body += ","
		}
		body += resource(one)
	}
	return body + groupTail + groupsTail
}

func apart(core, others answer) answer {
	return func(s *Server, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api" || r.URL.Path == "/api/v1" {
			core(s, w, r)
			return
		}
		others(s, w, r)
	}
}

func discoveries() []Script {
	none := text(http.StatusOK, discoveryType, groupsHead+groupsTail)
	return []Script{
		{Name: "a hundred thousand resources", lies: []lie{{at("/apis"), manyResources(100_000)}}},
		{Name: "a million resources", lies: []lie{{at("/apis"), manyResources(1_000_000)}}},
		{Name: "millions of empty groups", lies: []lie{{at("/apis"), long(discoveryType, repeated{groupsHead + "{}", ",{}", 2_000_000, groupsTail})}}},
		{
			Name: "old discovery",
			lies: []lie{{discovery, apart(text(http.StatusOK, jsonType, `{"kind":"APIVersions","versions":["v1"]}`), text(http.StatusOK, jsonType,
				`{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}]}]}`))}},
		},
		{
			Name: "endless discovery",
			lies: []lie{{at("/apis"), endless(discoveryType, groupsHead+fmt.Sprintf(groupHead, "endless")+resource("x"), ","+resource("x"))}},
		},
		{Name: "other resources", lies: []lie{{discovery, apart(text(http.StatusOK, discoveryType, document("", "widgets")), none)}}},
		{Name: "borrowed etag", lies: []lie{{discovery, apart(borrowETag, none)}}},
		{Name: "no resources", lies: []lie{{discovery, none}}},
		{
			Name: "discovery of nulls",
			lies: []lie{{discovery, text(http.StatusOK, discoveryType, `{"items":[null,{"metadata":null,"versions":[null,{"resources":[null]}]}]}`)}},
		},
	}
}

func manyResources(n int) answer {
	return func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", discoveryType)
		if _, err := io.WriteString(w, groupsHead+fmt.Sprintf(groupHead, "many.example.com")+resource("r")); err != nil {
			return
		}
		for i := range n {
			if _, err := io.WriteString(w, ","+resource("r"+number(i))); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, groupTail+groupsTail)
	}
}

// borrowETag serves one document under the name of another.
func borrowETag(s *Server, w http.ResponseWriter, r *http.Request) {
	truth := httptest.NewRecorder()
	s.tellTheTruth(truth, r)
	w.Header().Set("ETag", truth.Header().Get("ETag"))
	text(http.StatusOK, discoveryType, document("", "widgets"))(s, w, r)
}

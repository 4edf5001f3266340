// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// target is what a request to the API is about.
type target struct {
	group, version, namespace, resource, name, subresource string
}

// targetOf reads a path of the API, such as /apis/apps/v1/namespaces/a/deployments/b/scale. A server may have a
// prefix before it. The zero target is none of an API.
func targetOf(path string) target {
	var t target
	var rest string
	if _, after, found := strings.Cut(path, "/apis/"); found {
		t.group, rest, _ = strings.Cut(after, "/")
	} else if _, after, found := strings.Cut(path, "/api/"); found {
		rest = after
	}
	t.version, rest, _ = strings.Cut(rest, "/")
	parts := strings.Split(strings.Trim(rest, "/"), "/")
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		t.namespace, parts = parts[1], parts[2:]
	}
	for i, into := range []*string{&t.resource, &t.name, &t.subresource} {
		if i < len(parts) {
			*into = parts[i]
		}
	}
	return t
}

// isReview reports whether a request only asks what somebody may do, or is.
func (t target) isReview() bool {
	return (t.group == "authorization.k8s.io" || t.group == "authentication.k8s.io") && strings.HasSuffix(t.resource, "reviews")
}

// connects reports whether a request reaches through the API server to something else.
func (t target) connects(method string) bool {
	switch t.subresource {
	case "exec", "attach", "portforward":
		return true
	case "proxy":
		return method != http.MethodGet && method != http.MethodHead
	}
	return t.resource == "" && method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

// String names the target as kubectl does: deployments.apps/scale team-a/web.
func (t target) String() string {
	what := t.resource
	if t.group != "" {
		what += "." + t.group
	}
	if t.subresource != "" {
		what += "/" + t.subresource
	}
	if t.namespace != "" {
		return what + " " + t.namespace + "/" + t.name
	}
	return strings.TrimSpace(what + " " + t.name)
}

// reference lets events about different targets be told apart.
func (t target) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: strings.TrimPrefix(t.group+"/"+t.version, "/"), Kind: t.resource, Namespace: t.namespace, Name: t.name,
	}
}

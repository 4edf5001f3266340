// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// target is what a request to the API is about.
type target struct {
	group, version, namespace, resource, name, subresource string
}

// targetOf reads a path of the API, such as /apis/apps/v1/namespaces/a/deployments/b/scale. A server may have a
// prefix before it. What looks like an API first is the API: the rest may hold names and paths of anybody's
// choice. The zero target is none of an API.
func targetOf(of string) target {
	var t target
	parts := strings.Split(strings.Trim(of, "/"), "/")
	for ; len(parts) > 0; parts = parts[1:] {
		if parts[0] == "api" && len(parts) > 1 && apiVersion.MatchString(parts[1]) {
			t.version, parts = parts[1], parts[2:]
			break
		}
		if parts[0] == "apis" && len(parts) > 2 && apiVersion.MatchString(parts[2]) {
			t.group, t.version, parts = parts[1], parts[2], parts[3:]
			break
		}
	}
	if len(parts) == 0 {
		return t
	}
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

// apiVersion is what kube-apiserver takes for the version of a kind.
var apiVersion = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

// isPlain reports whether whoever reads the path of a URL reads the same: proxies merge slashes, and resolve dots.
func isPlain(u *url.URL) bool {
	return u.Opaque == "" && strings.TrimSuffix(u.Path, "/") == strings.TrimSuffix(path.Clean(u.Path), "/")
}

// isReview reports whether a request only asks what somebody may do, or is.
func (t target) isReview() bool {
	return (t.group == "authorization.k8s.io" || t.group == "authentication.k8s.io") && strings.HasSuffix(t.resource, "reviews")
}

// connects reports whether a request reaches through the API server to something else.
func (t target) connects(method string) bool {
	switch t.subresource {
	case "exec", "attach", "portforward", "proxy":
		return true // also with GET: a node's proxy runs commands with it
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

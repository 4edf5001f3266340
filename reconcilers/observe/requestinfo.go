// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
)

type target struct{ requestinfo.Info }

func targetOf(path string) target { return target{requestinfo.Of(path)} }

// isPlain reports whether a path has one meaning only: proxies merge slashes and resolve dots.
func isPlain(u *url.URL) bool {
	return u.Opaque == "" && strings.TrimSuffix(u.Path, "/") == strings.TrimSuffix(path.Clean(u.Path), "/")
}

func (t target) isReview() bool {
	return (t.Group == "authorization.k8s.io" || t.Group == "authentication.k8s.io") && strings.HasSuffix(t.Resource, "reviews")
}

func (t target) connects(method string) bool {
	switch t.Subresource {
	case "exec", "attach", "portforward", "proxy":
		return true // also with GET: a node's proxy runs commands with it
	}
	isKnown := t.Resource != "" && requestinfo.IsVersion(t.Version)
	return !isKnown && method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

// String is as kubectl: deployments.apps/scale team-a/web.
func (t target) String() string {
	what := t.Info.String()
	if t.Namespace != "" {
		return what + " " + t.Namespace + "/" + t.Name
	}
	return strings.TrimSpace(what + " " + t.Name)
}

func (t target) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: strings.TrimPrefix(t.Group+"/"+t.Version, "/"), Kind: t.Resource, Namespace: t.Namespace, Name: t.Name,
	}
}

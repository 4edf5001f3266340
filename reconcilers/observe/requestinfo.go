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

// isPlain reports whether a path has one meaning only: proxies merge slashes and resolve dots.
func isPlain(u *url.URL) bool {
	return u.Opaque == "" && strings.TrimSuffix(u.Path, "/") == strings.TrimSuffix(path.Clean(u.Path), "/")
}

func connects(method string, of requestinfo.Info) bool {
	switch of.Subresource {
	case "exec", "attach", "portforward", "proxy":
		return true // also with GET: a node's proxy runs commands with it
	}
	isKnown := of.Resource != "" && requestinfo.IsVersion(of.Version)
	return !isKnown && method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

func reference(to requestinfo.Info) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: strings.TrimPrefix(to.Group+"/"+to.Version, "/"), Kind: to.Resource, Namespace: to.Namespace, Name: to.Name,
	}
}

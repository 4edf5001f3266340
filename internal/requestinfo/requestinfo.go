// SPDX-License-Identifier: Apache-2.0

// Package requestinfo is the only parser of paths of Kubernetes requests: deadlines, limits, spans and observe mode
// must agree about the resource.
package requestinfo

import (
	"regexp"
	"strings"
)

// Info describes the resource of a request. The zero Info is none.
type Info struct {
	Group, Version, Namespace, Resource, Name, Subresource string
}

// Of reads a path such as /apis/apps/v1/namespaces/a/deployments/b/scale, behind any prefix. The first part that
// looks like an API is the API: the rest may be any path, such as a proxied one.
func Of(path string) Info {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	info, rest, found := find(parts, IsVersion)
	if !found {
		info, rest, found = find(parts, func(string) bool { return true }) // CRDs may have versions of any name
	}
	if !found || len(rest) == 0 {
		return info
	}
	if rest[0] == "namespaces" && len(rest) > 2 && rest[2] != "status" && rest[2] != "finalize" {
		info.Namespace, rest = rest[1], rest[2:]
	}
	for i, into := range []*string{&info.Resource, &info.Name, &info.Subresource} {
		if i < len(rest) {
			*into = rest[i]
		}
	}
	return info
}

// OfInnermost also reads the path behind a subresource proxy: a whole cluster may be reached through another's API.
func OfInnermost(path string) Info {
	info := Of(path)
	for inner := info; inner.Subresource == "proxy"; {
		var found bool
		if _, path, found = strings.Cut(path, "/proxy/"); !found {
			return info
		}
		if inner = Of("/" + path); inner.Resource == "" {
			return info
		}
		info = inner
	}
	return info
}

func find(parts []string, isVersion func(string) bool) (info Info, rest []string, found bool) {
	for ; len(parts) > 0; parts = parts[1:] {
		switch {
		case parts[0] == "api" && len(parts) > 1 && isVersion(parts[1]):
			return Info{Version: parts[1]}, parts[2:], true
		case parts[0] == "apis" && len(parts) > 2 && isVersion(parts[2]):
			return Info{Group: parts[1], Version: parts[2]}, parts[3:], true
		}
	}
	return Info{}, nil, false
}

// version is the form of Kubernetes' own APIs. See "Version priority" in its documentation of CRDs.
var version = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

// IsVersion reports the form of Kubernetes' own APIs, such as v1 or v2beta1.
func IsVersion(v string) bool { return version.MatchString(v) }

// IsCollection reports a request about all objects of a resource, in one namespace or all.
func (i Info) IsCollection() bool { return i.Resource != "" && i.Name == "" }

// IsReview reports a request that asks who may do what, and changes nothing.
func (i Info) IsReview() bool {
	return (i.Group == "authorization.k8s.io" || i.Group == "authentication.k8s.io") && strings.HasSuffix(i.Resource, "reviews")
}

// Target is as kubectl: deployments.apps/scale team-a/web. A collection in a namespace is as deployments.apps in team-a.
func (i Info) Target() string {
	switch {
	case i.Name == "" && i.Namespace != "":
		return i.String() + " in " + i.Namespace
	case i.Namespace != "":
		return i.String() + " " + i.Namespace + "/" + i.Name
	}
	return strings.TrimSpace(i.String() + " " + i.Name)
}

// String is as deployments.apps/scale.
func (i Info) String() string {
	text := i.Resource
	if i.Group != "" {
		text += "." + i.Group
	}
	if i.Subresource != "" {
		text += "/" + i.Subresource
	}
	return text
}

// SPDX-License-Identifier: Apache-2.0

package project

import (
	"runtime/debug"
	"strings"
)

// Build is what the Go command wrote into a binary.
type Build struct {
	// Version is a release, or the commit of a checkout.
	Version string
	// Commit and Date are those of the checkout, and empty for a program that was built from published modules.
	Commit, Date string
	// Clusterfx is the version of this module in a program of another one, and else empty.
	Clusterfx string
}

const module = "github.com/clusterfx/clusterfx"

// Version returns Version of BuildOf for this program.
func Version() string { return BuildOf(debug.ReadBuildInfo()).Version }

// BuildOf reads the information of debug.ReadBuildInfo.
func BuildOf(info *debug.BuildInfo, ok bool) Build {
	if !ok {
		return Build{Version: "unknown"}
	}
	b := Build{Version: info.Main.Version}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		}
	}
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			b.Clusterfx = dependency.Version
		}
	}
	switch {
	case b.Version != "" && b.Version != "(devel)":
	case b.Commit != "":
		b.Version = "devel-" + b.Commit
	default:
		b.Version = "devel"
	}
	return b
}

// StockImage is the repository of the stock hub's image.
const StockImage = "ghcr.io/clusterfx/hub"

// IsStock reports whether a program was built from the package of the stock hub. A program without information on how it was
// built is not the stock hub.
func IsStock(info *debug.BuildInfo, ok bool) bool {
	return ok && info.Path == module+"/cmd/hub" && info.Main.Path == module
}

// ReleasedImage returns the image of a release, and nothing for a build from a checkout: the manifests have
// the image for that.
func ReleasedImage(version string) string {
	if !strings.HasPrefix(version, "v") || strings.ContainsAny(version, "-+") {
		return ""
	}
	return StockImage + ":" + version
}

// RepositoryOf returns an image reference without its tag and its digest.
func RepositoryOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		return image[:i]
	}
	return image
}

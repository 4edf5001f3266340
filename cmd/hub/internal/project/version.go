// SPDX-License-Identifier: Apache-2.0

package project

import "runtime/debug"

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

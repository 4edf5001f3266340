// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"runtime/debug"
	"testing"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
)

func TestBuildOf(t *testing.T) {
	t.Parallel()
	const module = "github.com/clusterfx/clusterfx"
	settings := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-30T00:00:00Z"}}
	library := []*debug.Module{{Path: module, Version: "v0.1.0"}}
	for name, test := range map[string]struct {
		info *debug.BuildInfo
		want project.Build
	}{
		"no information": {nil, project.Build{Version: "unknown"}},
		"a release":      {&debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.1.0"}}, project.Build{Version: "v0.1.0"}},
		"a tag": {
			&debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.1.0"}, Settings: settings},
			project.Build{Version: "v0.1.0", Commit: "abc", Date: "2026-11-30T00:00:00Z"},
		},
		"a checkout": {
			&debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"}, Settings: settings},
			project.Build{Version: "devel-abc", Commit: "abc", Date: "2026-11-30T00:00:00Z"},
		},
		"a folder": {&debug.BuildInfo{}, project.Build{Version: "devel"}},
		"another module": {
			&debug.BuildInfo{Main: debug.Module{Path: "example.com/hub", Version: "v1.2.3"}, Deps: library},
			project.Build{Version: "v1.2.3", Clusterfx: "v0.1.0"},
		},
	} {
		if got := project.BuildOf(test.info, test.info != nil); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

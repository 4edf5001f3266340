// SPDX-License-Identifier: Apache-2.0

package project

import (
	"runtime/debug"
	"testing"
)

func TestBuildOf(t *testing.T) {
	t.Parallel()
	settings := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-30T00:00:00Z"}}
	library := []*debug.Module{{Path: module, Version: "v0.1.0"}}
	for name, test := range map[string]struct {
		info *debug.BuildInfo
		want Build
	}{
		"no information": {nil, Build{Version: "unknown"}},
		"a release":      {&debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.1.0"}}, Build{Version: "v0.1.0"}},
		"a tag": {
			&debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.1.0"}, Settings: settings},
			Build{Version: "v0.1.0", Commit: "abc", Date: "2026-11-30T00:00:00Z"},
		},
		"a checkout": {
			&debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"}, Settings: settings},
			Build{Version: "devel-abc", Commit: "abc", Date: "2026-11-30T00:00:00Z"},
		},
		"a folder": {&debug.BuildInfo{}, Build{Version: "devel"}},
		"another module": {
			&debug.BuildInfo{Main: debug.Module{Path: "example.com/hub", Version: "v1.2.3"}, Deps: library},
			Build{Version: "v1.2.3", Clusterfx: "v0.1.0"},
		},
	} {
		if got := BuildOf(test.info, test.info != nil); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

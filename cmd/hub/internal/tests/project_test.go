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

// The stock hub is recognized by its build information. Examples of this repository, hubs in other modules and programs
// without build information are other hubs.
func TestIsStock(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"github.com/clusterfx/clusterfx/cmd/hub":           true,
		"github.com/clusterfx/clusterfx/examples/podcount": false,
		"github.com/clusterfx/clusterfx/cmd/hub.test":      false,
		"command-line-arguments":                           false,
	} {
		info := &debug.BuildInfo{Path: path, Main: debug.Module{Path: "github.com/clusterfx/clusterfx"}}
		if got := project.IsStock(info, true); got != want {
			t.Errorf("%s is the stock hub: %t", path, got)
		}
	}
	other := &debug.BuildInfo{Path: "github.com/clusterfx/clusterfx/cmd/hub", Main: debug.Module{Path: "example.com/mine"}}
	if project.IsStock(other, true) || project.IsStock(nil, false) {
		t.Error("a program of another module, or without build information, is the stock hub")
	}
}

func TestRepositoryOf(t *testing.T) {
	t.Parallel()
	const stock = project.StockImage
	for image, want := range map[string]string{
		stock: stock, stock + ":v1": stock, stock + ":v1@sha256:00": stock, stock + "@sha256:00": stock,
		"localhost:5000/hub": "localhost:5000/hub", "localhost:5000/hub:v1": "localhost:5000/hub",
	} {
		if got := project.RepositoryOf(image); got != want {
			t.Errorf("the repository of %s is %s", image, got)
		}
	}
}

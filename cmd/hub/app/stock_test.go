// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/modules"
)

// The program of the stock hub is known by what it was built from. Examples of this repository, hubs in other modules and
// programs that do not say are other hubs.
func TestIsStock(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"github.com/clusterfx/clusterfx/cmd/hub":           true,
		"github.com/clusterfx/clusterfx/examples/podcount": false,
		"github.com/clusterfx/clusterfx/cmd/hub.test":      false,
		"command-line-arguments":                           false,
	} {
		info := &debug.BuildInfo{Path: path, Main: debug.Module{Path: "github.com/clusterfx/clusterfx"}}
		if got := isStock(info, true); got != want {
			t.Errorf("%s is the stock hub: %t", path, got)
		}
	}
	other := &debug.BuildInfo{Path: "github.com/clusterfx/clusterfx/cmd/hub", Main: debug.Module{Path: "example.com/mine"}}
	if isStock(other, true) || isStock(nil, false) {
		t.Error("a program of another module, or of none, is the stock hub")
	}
}

// A hub of one's own is not installed with the image of the stock hub, which lacks its modules.
func TestInstall_ImageOfOnesOwn(t *testing.T) {
	t.Parallel()
	run := func(stock bool, args ...string) (int, string) {
		var out bytes.Buffer
		code := execute(t.Context(), program{
			args: append([]string{"quota-hub", "install", "--export"}, args...), stdout: &out, stderr: &out, modules: modules.All(), stock: stock,
		})
		return code, out.String()
	}
	if code, out := run(false); code != 1 || strings.Contains(out, "kind:") ||
		!strings.Contains(out, "Error: quota-hub is not the stock hub, and no image is known that has its modules (inventory): build one, and name it with --image") {
		t.Errorf("without --image: %d, %.300s", code, out)
	}
	if code, out := run(false, "--image=example.com/quota-hub:v1"); code != 0 || !strings.Contains(out, "image: example.com/quota-hub:v1") {
		t.Errorf("with --image: %d, %.300s", code, out)
	}
	if code, out := run(true); code != 0 || !strings.Contains(out, "image: "+stockImage+":") {
		t.Errorf("the stock hub: %d, %.300s", code, out)
	}
}

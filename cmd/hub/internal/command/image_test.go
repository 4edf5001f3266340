// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"strings"
	"testing"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules"
)

// A custom hub is not installed with the image of the stock hub, which lacks its modules.
func TestInstall_ImageOfOnesOwn(t *testing.T) {
	t.Parallel()
	run := func(stock bool, args ...string) (int, string) {
		var out bytes.Buffer
		code := Execute(t.Context(), Program{
			Args: append([]string{"quota-hub", "install", "--export"}, args...), Stdout: &out, Stderr: &out, Modules: modules.All(), Stock: stock,
		})
		return code, out.String()
	}
	if code, out := run(false); code != 1 || strings.Contains(out, "kind:") ||
		!strings.Contains(out, "Error: quota-hub is not the stock hub, and no image is known that has its modules (inventory, sync, sync-rules, nats, tenants): build one, and name it with --image") {
		t.Errorf("without --image: %d, %.300s", code, out)
	}
	if code, out := run(false, "--image=example.com/quota-hub:v1"); code != 0 || !strings.Contains(out, "image: example.com/quota-hub:v1") {
		t.Errorf("with --image: %d, %.300s", code, out)
	}
	if code, out := run(true); code != 0 || !strings.Contains(out, "image: "+project.StockImage+":") {
		t.Errorf("the stock hub: %d, %.300s", code, out)
	}
}

// The stock hub replaces a hub with another image only if --image names the image of the stock hub.
func TestInstall_OtherHub(t *testing.T) {
	cluster := fleettest.Cluster(t, "other-hub")
	kubeconfig := testkit.File(t, "kubeconfig", cluster.Kubeconfig())
	c := fleettest.Client(t, cluster)
	run := func(stock bool, args ...string) (int, string) {
		var out bytes.Buffer
		args = append([]string{"hub", "install", "--kubeconfig=" + kubeconfig, "--yes", "--wait=false"}, args...)
		code := Execute(t.Context(), Program{Args: args, Stdout: &out, Stderr: &out, Modules: modules.All(), Stock: stock})
		return code, out.String()
	}
	expect := func(want string) {
		t.Helper()
		installed, err := install.Find(t.Context(), c, hubv1.DefaultNamespace)
		if err != nil || installed.Image != want {
			t.Errorf("the image is %s, %v; want %s", installed.Image, err, want)
		}
	}
	const own = "localhost:5000/quota-hub:v1"
	if code, out := run(false, "--image="+own); code != 0 {
		t.Fatalf("a custom hub: %d, %s", code, out)
	}
	for _, mode := range []string{"none", "server"} {
		code, out := run(true, "--dry-run="+mode)
		for _, want := range []string{"the installed hub runs another image than the stock one: Deployment clusterfx-system/clusterfx-hub runs the image " + own, "run the command install of the program in that image", "--image=" + project.StockImage} {
			if code != 1 || !strings.Contains(out, want) {
				t.Errorf("the stock hub, --dry-run=%s: %d, no %q in %s", mode, code, want, out)
			}
		}
	}
	expect(own)
	if code, out := run(true, "--image="+project.StockImage+":v1"); code != 0 {
		t.Errorf("the stock hub with --image: %d, %s", code, out)
	}
	expect(project.StockImage + ":v1")
	if code, out := run(true); code != 0 {
		t.Errorf("the stock hub over another version: %d, %s", code, out)
	}
	expect(project.StockImage + ":latest")
}

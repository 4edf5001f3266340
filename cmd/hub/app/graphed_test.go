// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// An App that is built to see how long that takes may read, and changes nothing in the hub and in the remote.
func TestGraph_TimedChangesNothing(t *testing.T) {
	t.Parallel()
	hub, remote := fleettest.Cluster(t, "graphed-hub"), fleettest.Cluster(t, "graphed-remote")
	if _, err := envtest.InstallCRDs(hub.Config(), envtest.CRDInstallOptions{Paths: []string{"../../../config/crd"}}); err != nil {
		t.Fatal(err)
	}
	connection := []string{
		"--kubeconfig=" + file(t, hub.Kubeconfig()), "--cluster-kubeconfig=" + file(t, remote.Kubeconfig()),
	}
	write := func(c client.Client) error {
		return c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "left-behind-"}})
	}
	for name, test := range map[string]struct {
		module registry.ModuleOptions
		status int
		want   string
	}{
		"reads": {
			registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
				return p.Reader.Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{})
			})}, 0, `label="app: func at graphed_test\.go:\d+  [0-9.]+[nmµ]?s"`,
		},
		"shares a value of the hub": {
			registry.ModuleOptions{
				Hub:    fx.Options(fx.Provide(makesAbsent), registry.Share[*absent]()),
				Remote: fx.Invoke(needsAbsent),
			}, 0, `(?s)label="registry\.Share  .*label="app\.needsAbsent\(\)  [0-9.]+[nmµ]?s"`,
		},
		"writes to the remote": {
			registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error { return write(p.Client) })},
			1, `build the app: .*changes nothing: do it in OnStart`,
		},
		"writes to the hub from an app": {
			registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error { return write(p.Hub) })},
			1, `build the app: .*changes nothing: do it in OnStart`,
		},
		"writes to the hub": {
			registry.ModuleOptions{Hub: fx.Invoke(write)},
			1, `build the hub: .*changes nothing: do it in OnStart`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			status := execute(t.Context(), program{
				args: append([]string{"hub", "graph", "--app", "--timed"}, connection...), stdout: &out, stderr: &out,
				modules: []registry.Module{registry.NewModule("mine", test.module)},
			})
			if status != test.status || !regexp.MustCompile(test.want).MatchString(out.String()) {
				t.Errorf("the exit status is %d, and it says:\n%s", status, out.String())
			}
		})
	}
	for _, c := range []*fleet.Cluster{hub, remote} {
		admin, err := client.New(c.Config(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var all corev1.ConfigMapList
		if err := admin.List(t.Context(), &all, client.InNamespace("default")); err != nil {
			t.Fatal(err)
		}
		for _, one := range all.Items {
			if one.GenerateName != "" {
				t.Errorf("%s was written", one.Name)
			}
		}
	}
}

// file writes a kubeconfig down and returns the path.
func file(t *testing.T, kubeconfig []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

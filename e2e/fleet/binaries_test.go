// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"os"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	for _, version := range fleet.Versions() {
		minor := strings.Join(strings.Split(strings.TrimPrefix(version, "v"), ".")[:2], ".")
		modfile := "versions/" + minor + ".mod"
		if version == fleet.KubernetesVersion {
			modfile = "go.mod"
		}
		file, err := os.ReadFile("../controlplane/" + modfile)
		testkit.Must(t, err)
		if want := "k8s.io/kubernetes " + version + " "; !strings.Contains(string(file), want) {
			t.Errorf("e2e/controlplane/%s does not require %s", modfile, version)
		}
		if found, err := fleet.VersionOf(minor); err != nil || found != version {
			t.Errorf("%s is %s (%v), want %s", minor, found, err, version)
		}
	}
	_, err := fleet.VersionOf("1.3")
	testkit.ErrorHas(t, err, "use one of 1.30, 1.31", "a version that is not in the table", "1.3")
}

func TestNew_missingBinaries(t *testing.T) {
	for _, variable := range []string{"KUBEBUILDER_ASSETS", "XDG_CACHE_HOME", "HOME"} {
		t.Setenv(variable, t.TempDir())
		_, err := fleet.New(t.Context(), fleet.Options{})
		testkit.ErrorHas(t, err, `run "make controlplane"`, "with an empty", variable)
		t.Setenv("KUBEBUILDER_ASSETS", "")
	}
}

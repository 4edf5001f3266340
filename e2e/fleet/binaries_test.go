// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"os"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestKubernetesVersion(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../controlplane/go.mod")
	testkit.Must(t, err)
	if want := "k8s.io/kubernetes " + fleet.KubernetesVersion; !strings.Contains(string(file), want) {
		t.Errorf("e2e/controlplane/go.mod does not require %s", want)
	}
}

func TestNew_missingBinaries(t *testing.T) {
	for _, variable := range []string{"KUBEBUILDER_ASSETS", "XDG_CACHE_HOME", "HOME"} {
		t.Setenv(variable, t.TempDir())
		_, err := fleet.New(t.Context(), fleet.Options{})
		testkit.ErrorHas(t, err, `run "make controlplane"`, "with an empty", variable)
		t.Setenv("KUBEBUILDER_ASSETS", "")
	}
}

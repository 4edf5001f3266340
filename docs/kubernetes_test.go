// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
)

// The range of hub check and of VersionUntested, the versions that can be built, the chart and the pages agree.
func TestDocs_KubernetesRange(t *testing.T) {
	t.Parallel()
	const oldest, newest = clusterstatus.OldestKubernetes, clusterstatus.NewestKubernetes
	built := fleet.Versions()
	if !strings.HasPrefix(built[0], "v"+oldest+".") || !strings.HasPrefix(built[len(built)-1], "v"+newest+".") {
		t.Errorf("the versions that can be built are %v, and the range is %s to %s", built, oldest, newest)
	}
	for _, version := range built {
		if !clusterstatus.IsTested(version) {
			t.Errorf("%s can be built and is not in the range", version)
		}
	}
	data, err := os.ReadFile(filepath.Join(repository, "config/chart/Chart.yaml"))
	var chart struct{ KubeVersion string }
	if err == nil {
		err = yaml.Unmarshal(data, &chart)
	}
	if want := ">=" + oldest + ".0-0"; err != nil || chart.KubeVersion != want {
		t.Errorf("the chart has kubeVersion %q (%v), want %q", chart.KubeVersion, err, want)
	}
	all := pages(t)
	for _, page := range []string{"README.md", "docs/operating.md"} {
		if !strings.Contains(all[page], "Kubernetes "+oldest+" to "+newest) {
			t.Errorf("%s does not say Kubernetes %s to %s", page, oldest, newest)
		}
	}
	for _, version := range built {
		if !strings.Contains(all["docs/operating.md"], "| "+version+" |") {
			t.Errorf("the table of docs/operating.md lacks %s", version)
		}
	}
}

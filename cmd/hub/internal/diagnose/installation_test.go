// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/partreport"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A hub part that waits until its replica leads is no trouble.
func TestInstallation_Modules(t *testing.T) {
	t.Parallel()
	report := func(parts ...partreport.Part) partreport.Reports {
		other := partreport.Report{Written: metav1.Now(), Replica: "another", Parts: parts[:2]}
		return partreport.Reports{other, {Written: metav1.Now(), Replica: "one", Parts: parts}}
	}
	runs := partreport.Part{Module: "runs", State: state.ModuleRunning}
	standsBy := partreport.Part{Module: "stands-by", State: state.ModuleStandby, Reason: state.ReasonNotLeader}
	failed := partreport.Part{Module: "failed", State: state.ModuleFailed, Reason: state.ReasonModuleFailed}
	for text, parts := range map[string][]partreport.Part{
		"2 hub parts run": {runs, standsBy}, "module failed is Failed (ModuleFailed)": {runs, standsBy, failed},
	} {
		var got Report
		Installation{}.modules(&got, report(parts...), nil)
		if len(got) != 1 || !strings.Contains(got[0].Text, text) || got.Failed() != (len(parts) == 3) {
			t.Errorf("got %+v, want one finding with %q", got, text)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package rehearse_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/rehearse"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// start runs a rehearsal of the module writer in a process of its own.
func (a *audited) start(t *testing.T, args ...string) (cmd *exec.Cmd, out *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	args = append([]string{"rehearse", "--trust-observe", "--allow-cidr=127.0.0.0/8", "--kubeconfig=" + testkit.File(t, "file", a.hub.Kubeconfig())}, args...)
	cmd, out = exec.CommandContext(t.Context(), self, args...), &bytes.Buffer{}
	cmd.Env = append(os.Environ(), asRehearsal+"=yes")
	cmd.Stdout, cmd.SysProcAttr = out, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, cmd.Start())
	return cmd, out
}

func (a *audited) awaitDryRun(t *testing.T, filters ...func(fleet.AuditEvent) bool) {
	t.Helper()
	eventually(t, func() error {
		events, err := a.remotes[0].AuditEvents(append(filters, fleet.ByAgent("clusterfx/rehearsal"), fleet.AuditEvent.Writes)...)
		if err == nil && len(events) == 0 {
			err = errNothingTried
		}
		return err
	})
}

var errNothingTried = errors.New("there is no dry run yet")

// Two rehearsals at once say the same. Whether they end or are killed, nothing is left in any cluster.
func TestRehearse_Processes(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub/internal/rehearse TestRehearse_ExitStatus")
	t.Parallel()
	a := newAudited(t, "oslo", "rome")
	a.fill(t, "oslo", "rome")
	before := a.objects(t)
	killed, _ := a.start(t, "--quiet=1h")
	a.awaitDryRun(t)
	must(t, killed.Process.Kill())
	_ = killed.Wait() // It was killed.
	one, said := a.start(t, "--quiet=1s")
	other, too := a.start(t, "--quiet=1s")
	for _, cmd := range []*exec.Cmd{one, other} {
		_ = cmd.Wait() // The exit status is compared.
		testkit.Equal(t, cmd.ProcessState.ExitCode(), int(rehearse.Differs), "exit status")
	}
	testkit.Equal(t, said.String(), too.String(), "the reports")
	a.expectNoWrite(t)
	testkit.Equal(t, a.objects(t), before, "the objects of the clusters")
	a.expectCutOff(t)
	a.expectWithdrawn(t)
}

// A policy that is withdrawn in the middle of a rehearsal ends that of the remote within a minute, and the others complete.
func (a *audited) expectWithdrawn(t *testing.T) {
	t.Helper()
	o := a.register(t, "", writer())
	o.Quiet, o.For = time.Hour, 100*time.Second
	begin, reports := time.Now(), make(chan *rehearse.Report, 1)
	go func() {
		report, err := rehearse.Run(t.Context(), o)
		testkit.NoError(t, err)
		reports <- report
	}()
	a.awaitDryRun(t, fleet.Since(begin))
	must(t, a.client["oslo"].Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "clusterfx-oslo-rehearsal"}}))
	report := <-reports
	testkit.Equal(t, report.Verdict(), rehearse.Unheld, "verdict")
	if found(report, rehearse.NotHeld, "", "oslo").Detail == "" || found(report, rehearse.NotHeld, "", "rome").Detail != "" {
		t.Errorf("the findings are %+v", report.Findings)
	}
	if all := changes(report, "writer"); !slices.Contains(all, "rome: create configmaps default/report-rome") {
		t.Errorf("the changes are %q", all)
	}
	a.expectNoWrite(t)
}

// objects returns what could have been left, with versions.
func (a *audited) objects(t *testing.T) (all []string) {
	t.Helper()
	for _, name := range []string{"hub", "oslo"} {
		for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.ServiceAccountList{}, &corev1.EventList{}, &corev1.PodList{}} {
			must(t, a.client[name].List(t.Context(), list, client.InNamespace("default")))
			must(t, eachItem(list, func(o client.Object) { all = append(all, name+" "+o.GetName()+" "+o.GetResourceVersion()) }))
		}
	}
	return all
}

// A remote that is cut off while it is rehearsed is a finding, and the others complete.
func (a *audited) expectCutOff(t *testing.T) {
	t.Helper()
	begin := time.Now()
	cmd, out := a.start(t, "--quiet=5s", "--for=40s")
	a.awaitDryRun(t, fleet.Since(begin))
	must(t, a.remotes[0].Pause())
	_ = cmd.Wait() // The exit status is compared.
	must(t, a.remotes[0].Resume())
	testkit.Equal(t, cmd.ProcessState.ExitCode(), int(rehearse.Differs), "exit status")
	if said := out.String(); !strings.Contains(said, "\nrome\n  writer: would create") || !strings.Contains(said, "the object could not be read again") ||
		!strings.Contains(said, "left out:\n  oslo") {
		t.Errorf("the report is\n%s", said)
	}
	a.expectNoWrite(t)
}

// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// printNext prints the paths of files, and the next commands.
func (d *demo) printNext(context.Context) error {
	first, last := d.remotes[0].Name(), d.remotes[len(d.remotes)-1].Name()
	contexts := []string{hubName}
	for _, r := range d.remotes {
		contexts = append(contexts, r.Name())
	}
	text := fmt.Sprintf("\n  kubeconfig   export KUBECONFIG=%s   (contexts: %s)\n", d.folder.path(kubeconfigFile), strings.Join(contexts, ", "))
	if _, err := exec.LookPath("kubectl"); err != nil {
		path, err := fleet.Binary("kubectl")
		if err != nil {
			return fmt.Errorf("find kubectl: %w", err)
		}
		text += fmt.Sprintf("  kubectl      alias kubectl=%s   (there is none on PATH)\n", path)
	}
	for _, r := range d.started {
		text += fmt.Sprintf("  %-12s process %d, metrics at http://%s/metrics\n", r.Name, r.cmd.Process.Pid, r.Metrics)
	}
	if !d.verbose {
		text += fmt.Sprintf("  hub's log    %s\n", d.folder.path(logFile))
	}
	deregisters := fmt.Sprintf("kubectl -n %s delete secret %s   # deregisters it a minute later", hubv1.DefaultNamespace, last)
	if d.tunnel { // The Cluster is no child of its Secret.
		deregisters = "kubectl delete fxc " + last
	}
	next := slices.Concat([]string{
		"kubectl get clusters.clusterfx.dev -o wide",
		fmt.Sprintf("%s check %s", self(d.program.Name), first),
		fmt.Sprintf("kubectl get fxc %s -o jsonpath='{.status.inventory}'", first),
		fmt.Sprintf("kubectl --context %s get nodes,pods -A", last),
		fmt.Sprintf(`kubectl patch fxc %s --type merge -p '{"spec":{"state":"Paused"}}'`, last),
		deregisters,
	}, d.nextOfReplicas(), d.nextOfSync(), d.nextOfNATS())
	return d.terminal.Print("%s\n  try:  %s\n", text, strings.Join(next, "\n        "))
}

// nextOfSync returns the commands that show the rules of --apply.
func (d *demo) nextOfSync() []string {
	if len(d.rules) == 0 {
		return nil
	}
	return []string{"kubectl get fxsr", fmt.Sprintf("%s sync diff %s", self(d.program.Name), d.rules[0].Name)}
}

func (d *demo) printTable(ctx context.Context) error {
	kube, err := clientset.NewForConfig(d.hub.Config())
	if err != nil {
		return fmt.Errorf("build a client for the hub: %w", err)
	}
	data, err := kube.RESTClient().Get().
		AbsPath("apis", hubv1.GroupVersion.String(), "clusters").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("get the table of Clusters: %w", err)
	}
	var table metav1.Table
	if err := json.Unmarshal(data, &table); err != nil {
		return fmt.Errorf("read the table of Clusters: %w", err)
	}
	d.terminal.Text("")
	return output.PrintTable(d.terminal.Out, &table, false)
}

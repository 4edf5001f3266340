// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/inspect"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// hubOf returns a client for an API server with the CRD, on which no hub runs.
func hubOf(t *testing.T) *access.Cluster {
	t.Helper()
	config := fleettest.Cluster(t, "hub").Config()
	fleettest.InstallCRDs(t, config)
	hub, err := access.New("the hub's cluster", config)
	must(t, err)
	return hub
}

// Controllers are printed below their modules: in one line if all of them run, and otherwise each with its reason.
func TestDescribe_Controllers(t *testing.T) {
	hub := hubOf(t)
	c := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
	c.Spec.KubeconfigSecretRef.Name = "edge"
	must(t, hub.Create(t.Context(), c))
	running := func(names ...string) (all []hubv1.ControllerStatus) {
		for _, name := range names {
			all = append(all, hubv1.ControllerStatus{Name: name, State: hubv1.ModuleRunning})
		}
		return all
	}
	c.Status = hubv1.ClusterStatus{ModuleSummary: "1/3", Modules: []hubv1.ModuleStatus{
		{Name: "quota", State: hubv1.ModuleRunning, Reason: "Running", Controllers: running("count", "enforce")},
		{
			Name: "scanner", State: hubv1.ModuleWaiting, Reason: "Forbidden", Message: "grant list and watch: pods",
			Controllers: append(running("nodes"), hubv1.ControllerStatus{
				Name: "pods", State: hubv1.ModuleWaiting, Reason: "Forbidden", Message: "grant list and watch: pods",
			}, hubv1.ControllerStatus{
				Name: "images", State: hubv1.ModuleStarting, Reason: "Starting", Message: "waits for the initial objects of Image.example.com",
			}),
		},
		{Name: "stopped", State: hubv1.ModuleStopped},
	}, Remains: []hubv1.SyncRemains{{
		Rule: "orders", UID: "1", HubID: "hub", From: hubv1.SyncFromHub, Policy: hubv1.SyncDelete, Kind: hubv1.SyncKind{APIVersion: "v1", Kind: "ConfigMap"},
	}}}
	must(t, hub.Status().Update(t.Context(), c))
	tree, err := inspect.Describe(t.Context(), hub, "edge")
	must(t, err)
	var out bytes.Buffer
	must(t, output.NewTerminal(strings.NewReader(""), &out, &out).Tree(tree))
	want := `|- App: 1/3 modules run
|  |- ok quota              Running
|  |  ` + "`" + `- Controllers: count, enforce
|  |- unknown: scanner            Waiting: Forbidden: grant list and watch: pods
|  |  |- ok controller nodes              Running
|  |  |- unknown: controller pods               Waiting: Forbidden: grant list and watch: pods
|  |  ` + "`" + `- > controller images             Starting: waits for the initial objects of Image.example.com
|  ` + "`" + `- unknown: stopped            Stopped
`
	if !strings.Contains(out.String(), want) {
		t.Errorf("the tree is\n%s\nwant\n%s", out.String(), want)
	}
	if remains := "orders             copies of ConfigMap from Hub, deletionPolicy Delete"; !strings.Contains(out.String(), remains) {
		t.Errorf("the tree is\n%s\nwant what rules have left: %s", out.String(), remains)
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// Every line of the log is JSON and names its remote and its module, and no line contains a secret, even with
// --log-level=debug and a remote that becomes unreachable and returns.
func TestRun_LogSaysWhatItIsAbout(t *testing.T) {
	t.Parallel()
	f := fleettest.New(t, fleet.Options{})
	clusters := createAll(t, f, "hub", "edge")
	hub, edge := clusters[0], clusters[1]
	proxy, err := fault.New(edge.Server())
	must(t, err)
	t.Cleanup(proxy.Close)
	for _, name := range []string{makesItFail, makesItPanic} {
		must(t, clientFor(t, edge).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
			Data:       map[string]string{"password": hiddenText},
		}))
	}
	kubeconfig := install(t, hub)
	token, err := edge.MintToken(t.Context(), fleet.User{Name: "hub", Rules: allRights})
	must(t, err)
	through, err := proxy.Kubeconfig(token.Kubeconfig())
	must(t, err)
	secret := registration("one", edge)
	secret.Data["kubeconfig"] = through
	must(t, clientFor(t, hub).Create(t.Context(), secret))

	p := startTalker(t, nil, quiet(kubeconfig, "--log-level=debug", "--log-format=json")...)
	ready := func() {
		kubectl(t, kubeconfig, "wait", "--for=condition=Ready", "--timeout=60s", "clusters.clusterfx.dev/one")
	}
	waitForCluster(t, hub, "one")
	ready()
	p.expect(&p.stderr, saidByReconciler)
	p.expect(&p.stderr, "A reconciler panicked")
	must(t, proxy.Set(fault.Refuse()))
	kubectl(t, kubeconfig, "wait", "--for=condition=Ready=false", "--timeout=60s", "clusters.clusterfx.dev/one")
	must(t, proxy.Set(fault.Pass()))
	ready()
	p.signal(syscall.SIGTERM)
	p.expectExit(0)

	lines := linesOf(t, p.stderr.String())
	for _, one := range lines {
		one.check(t, proxy.Addr())
	}
	expectSecretless(t, p.stderr.String()+p.stdout.String(), through)
	for _, msg := range []string{saidByReconciler, saidByLogger, "Reconciler error", "A reconciler panicked", "Cluster changed"} {
		if !slices.ContainsFunc(lines, func(l line) bool { return l["msg"] == msg }) {
			t.Errorf("the log has no message %q, so that this test proves nothing", msg)
		}
	}
}

// line is a line of the log.
type line map[string]any

func linesOf(t *testing.T, text string) []line {
	t.Helper()
	var all []line
	for i, raw := range strings.Split(strings.TrimSpace(text), "\n") {
		var one line
		if err := json.Unmarshal([]byte(raw), &one); err != nil {
			t.Fatalf("line %d is not JSON: %v: %s", i+1, err, raw)
		}
		all = append(all, one)
	}
	return all
}

// check fails the test if a key is missing in the line. server is the address of the remote.
func (l line) check(t *testing.T, server string) {
	t.Helper()
	expect := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			if text, _ := l[key].(string); text == "" {
				t.Errorf("no %s in %v", key, l)
			}
		}
	}
	expect("level", "ts", "msg")
	logger, _ := l["logger"].(string)
	switch {
	case l["cluster"] == nil && l["epoch"] != nil: // of a hub part
		expect("module")
	case strings.HasPrefix(logger, "registry"):
		expect("cluster")
	}
	if l["controller"] == "talker" || l["msg"] == saidByLogger || l["msg"] == saidByReconciler {
		expect("cluster", "module")
	}
	if inReconcile := l["msg"] == saidByReconciler || l["msg"] == "Reconciler error" || l["msg"] == "A reconciler panicked"; inReconcile {
		expect("reconcileID", "controller")
	}
	if l["controller"] == "cluster" && l["reconcileID"] != nil {
		expect("cluster")
	}
	if l["cluster"] == nil && strings.Contains(fmt.Sprint(l), server) {
		t.Errorf("the line has the address of the remote, but not its name: %v", l)
	}
}

// hiddenText is in an object that a module logs. The log has only the name of the object.
const hiddenText = "open-sesame"

// expectSecretless fails the test if the text contains a secret of a kubeconfig, in full or in part.
func expectSecretless(t *testing.T, text string, kubeconfig []byte) {
	t.Helper()
	var c struct {
		Users []struct{ User map[string]string }
	}
	must(t, yaml.Unmarshal(kubeconfig, &c))
	secrets := []string{hiddenText}
	for _, user := range c.Users {
		for _, key := range []string{"token", "client-key-data", "client-certificate-data"} {
			if user.User[key] != "" {
				secrets = append(secrets, user.User[key])
			}
		}
	}
	if len(secrets) < 2 {
		t.Fatalf("the kubeconfig has no secrets, so that this test proves nothing")
	}
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("%.12s... is in the output of the hub", secret)
		}
		if part := secret[len(secret)/2:]; strings.Contains(text, part) {
			t.Errorf("a part of %.12s... is in the output of the hub", secret)
		}
	}
}

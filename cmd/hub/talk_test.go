// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/logging"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// talk is one life of a hub with the module talker and a remote that becomes unreachable and returns. Its log, its traces and its
// pages tell of that.
type talk struct {
	*program
	t          *testing.T
	kubeconfig string // of the hub's cluster
	remote     []byte // the kubeconfig in the Secret
	proxy      *fault.Proxy
	spans      *collector
	pages      string // their address
	hub, edge  *fleet.Cluster
}

// The log of a hub and its traces name the remote and the module of what they tell, and contain no secret, even with
// --log-level=debug; the traces do not contain the address of a remote either. A hub that was killed continues when it is started again. With --debug-bind-address the hub serves its profiles,
// its flags and its status, and only on loopback.
func TestRun_LogAndTracesSayWhatTheyAreAbout(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.start()
	waitForCluster(t, k.hub, "one")
	k.expectReady("true")
	k.killAndStart()
	k.expect(&k.stderr, saidByReconciler)
	k.expect(&k.stderr, "A reconciler panicked")
	for _, want := range wantedSpans() {
		eventually(t, func() error { return want.isIn(k.spans) })
	}
	k.expectPages()
	must(t, k.proxy.Set(fault.Refuse()))
	k.expectReady("false")
	must(t, k.proxy.Set(fault.Pass()))
	k.expectReady("true")
	k.signal(syscall.SIGTERM)
	k.expectExit(0)
	// The last span is not lost.
	must(t, wanted{"app.stop", map[string]string{"cluster": "one", "epoch": ""}, ""}.isIn(k.spans))
	k.checkLog()
	k.checkTraces()
}

func newTalk(t *testing.T) *talk {
	t.Helper()
	k := &talk{t: t, hub: fleettest.Borrow(t, pool.Hub), edge: fleettest.Borrow(t, pool.Remote), pages: fleettest.FreeAddress(t), spans: newCollector(t)}
	var err error
	k.proxy, err = fault.New(k.edge.Server())
	must(t, err)
	t.Cleanup(k.proxy.Close)
	for _, name := range []string{makesItFail, makesItPanic, "an-object"} {
		must(t, clientFor(t, k.edge).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
			Data:       map[string]string{"password": hiddenText},
		}))
	}
	k.kubeconfig = install(t, k.hub)
	token, err := k.edge.MintToken(t.Context(), fleet.User{Name: "hub", Rules: allRights})
	must(t, err)
	k.remote, err = k.proxy.Kubeconfig(token.Kubeconfig())
	must(t, err)
	secret := registration("one", k.edge)
	secret.Data["kubeconfig"] = k.remote
	must(t, clientFor(t, k.hub).Create(t.Context(), secret))
	return k
}

func (k *talk) start() {
	k.t.Helper()
	k.program = startTalker(k.t, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + k.spans.url, "OTEL_BSP_SCHEDULE_DELAY=50",
		"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test", "OTEL_PROPAGATORS=tracecontext,baggage",
	}, quiet(k.kubeconfig, "--log-level=debug", "--log-format=json", "--replica-name=replica-7", "--concurrency=7", "--debug-bind-address="+k.pages)...)
}

// killAndStart kills the hub while the app of its remote runs. The next one continues with the same Cluster, and takes up what
// has changed since.
func (k *talk) killAndStart() {
	k.t.Helper()
	c, edge, key := clientFor(k.t, k.hub), clientFor(k.t, k.edge), client.ObjectKey{Name: "one"}
	var before, after hubv1.Cluster
	must(k.t, c.Get(k.t.Context(), key, &before))
	k.signal(syscall.SIGKILL)
	_ = k.exit()
	missed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "missed"}}
	must(k.t, edge.Create(k.t.Context(), missed))
	k.start()
	eventually(k.t, func() error {
		err := edge.Get(k.t.Context(), client.ObjectKeyFromObject(missed), missed)
		if err == nil && missed.Labels["seen"] == "" {
			err = errors.New("the hub has not seen an object that was created while it was dead")
		}
		return err
	})
	must(k.t, c.Get(k.t.Context(), key, &after))
	if after.UID != before.UID || len(after.Finalizers) != 1 {
		k.t.Errorf("after the kill the Cluster is %s with the finalizers %v, was %s", after.UID, after.Finalizers, before.UID)
	}
}

func (k *talk) expectReady(status string) {
	k.t.Helper()
	kubectl(k.t, k.kubeconfig, "wait", "--for=condition=Ready="+status, "--timeout=60s", "clusters.clusterfx.dev/one")
}

func (k *talk) expectPages() {
	k.t.Helper()
	if text, err := page(k.t, k.pages, "/debug/pprof/goroutine?debug=1"); err != nil || !strings.Contains(text, "goroutine profile: total") {
		k.t.Errorf("profiles: %s, %v", text, err)
	}
	open := startTalker(k.t, nil, quiet(k.kubeconfig, "--debug-bind-address=:6060")...)
	open.expectExit(1)
	open.expect(&open.stderr, "use 127.0.0.1:6060")
}

func (k *talk) checkLog() {
	k.t.Helper()
	lines := linesOf(k.t, k.stderr.String())
	for _, one := range lines {
		one.check(k.t, k.proxy.Addr())
	}
	expectSecretless(k.t, k.stderr.String(), k.remote)
	for _, msg := range []string{
		"Starting the hub", saidByReconciler, saidByLogger, "Reconciler error", "A reconciler panicked", "Cluster changed", "The hub was stopped",
	} {
		if !slices.ContainsFunc(lines, func(l line) bool { return l["msg"] == msg }) {
			k.t.Errorf("the log has no message %q, so that this test proves nothing", msg)
		}
	}
}

func (k *talk) checkTraces() {
	k.t.Helper()
	all := k.spans.all()
	for _, secret := range []string{"127.0.0.1", "resourceVersion=", "?", "limit=", makesItFail, makesItPanic, "an-object"} {
		if strings.Contains(all, secret) {
			k.t.Errorf("%q is in the traces", secret)
		}
	}
	expectSecretless(k.t, all, k.remote)
	for key, value := range map[string]string{
		"service.name": logging.ServiceName, "service.instance.id": "replica-7", "deployment.environment.name": "test",
	} {
		testkit.Equal(k.t, k.spans.resource[key], value, key)
	}
}

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

func page(t *testing.T, address, path string) (string, error) {
	t.Helper()
	r := testkit.Request(t, http.MethodGet, "http://"+address+path)
	r.Close = true
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return string(body), err
}

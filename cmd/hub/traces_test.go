// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/tracing"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// A hub exports the spans of its work for a remote, with their attributes and parents, to a collector of OTLP. The
// spans contain neither secrets nor the address of a remote.
func TestRun_Traces(t *testing.T) {
	t.Parallel()
	f := fleettest.New(t, fleet.Options{})
	clusters := createAll(t, f, "hub", "edge")
	hub, edge := clusters[0], clusters[1]
	for _, name := range []string{makesItFail, "an-object"} {
		must(t, clientFor(t, edge).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		}))
	}
	kubeconfig := install(t, hub)
	must(t, clientFor(t, hub).Create(t.Context(), registration("one", edge)))
	collected := newCollector(t)
	p := startTalker(t, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + collected.url, "OTEL_BSP_SCHEDULE_DELAY=50",
		"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test", "OTEL_PROPAGATORS=tracecontext,baggage",
	}, quiet(kubeconfig, "--replica-name=replica-7")...)
	waitForCluster(t, hub, "one")
	kubectl(t, kubeconfig, "wait", "--for=condition=Ready", "--timeout=60s", "clusters.clusterfx.dev/one")
	for _, want := range wantedSpans() {
		eventually(t, func() error { return want.isIn(collected) })
	}
	began := time.Now()
	p.signal(syscall.SIGTERM)
	p.expectExit(0)
	t.Logf("the hub ends within %s", time.Since(began))
	// The last span is not lost.
	must(t, wanted{"app.stop", map[string]string{"cluster": "one", "epoch": ""}, ""}.isIn(collected))

	all := collected.all()
	for _, secret := range []string{"127.0.0.1", "resourceVersion=", "?", "limit=", makesItFail, "an-object"} {
		if strings.Contains(all, secret) {
			t.Errorf("%q is in the traces", secret)
		}
	}
	expectSecretless(t, all, edge.Kubeconfig())
	for key, value := range map[string]string{
		"service.name": tracing.ServiceName, "service.instance.id": "replica-7", "deployment.environment.name": "test",
	} {
		if got := collected.resource[key]; got != value {
			t.Errorf("%s is %q, want %q", key, got, value)
		}
	}
}

// wanted is an expected span with these attributes (empty for any value) and this parent.
type wanted struct {
	name   string
	about  map[string]string
	parent string
}

func wantedSpans() []wanted {
	one := func(more ...string) map[string]string {
		about := map[string]string{"cluster": "one"}
		for i := 0; i < len(more); i += 2 {
			about[more[i]] = more[i+1]
		}
		return about
	}
	return []wanted{
		{"app.start", one("epoch", ""), ""},
		{"app.turn", one("epoch", ""), "app.start"},
		{"app.connect", one("epoch", ""), "app.start"},
		{"GET discovery", one("to", "remote", "http.response.status_code", "int_value:200"), ""}, // beside the first question for the identity
		{"app.build", one("epoch", ""), "app.start"},
		{"app.hooks", one("epoch", ""), "app.start"},
		{"app.sync", one("epoch", ""), "app.start"},
		{"probe", one(), ""},
		{"GET namespaces", one("to", "remote"), "probe"},
		{"GET configmaps", one("to", "remote", "watch", "bool_value:true"), ""},
		{"reconcile", one("controller", "cluster", "reconcileID", ""), ""},
		{"reconcile", one("module", "talker", "reconcileID", "", "result", "success"), ""},
		{"reconcile", one("module", "talker", "reconcileID", "", "result", "error", "error.type", "error"), ""},
		{"PATCH configmaps", one("module", "talker", "to", "remote", "k8s.namespace.name", "default"), "reconcile"},
		{"WithClient", one(), ""},
	}
}

func (w wanted) isIn(c *collector) error {
	found := c.find(w.name, w.about)
	if len(found) == 0 {
		return fmt.Errorf("no span %s with %v", w.name, w.about)
	}
	for _, s := range found {
		if w.parent == c.parentOf(s) {
			return nil
		}
	}
	return fmt.Errorf("the span %s with %v has the parent %q, want %q", w.name, w.about, c.parentOf(found[0]), w.parent)
}

// A collector that accepts connections and never responds does not keep a remote from becoming Ready, and delays the
// end of the hub only for a bounded time.
func TestRun_TracesNobodyTakes(t *testing.T) {
	t.Parallel()
	f := fleettest.New(t, fleet.Options{})
	clusters := createAll(t, f, "hub", "edge")
	hub, edge := clusters[0], clusters[1]
	hole, err := net.Listen("tcp", "127.0.0.1:0") // The kernel accepts, and no process reads.
	must(t, err)
	t.Cleanup(func() { _ = hole.Close() })
	kubeconfig := install(t, hub)
	must(t, clientFor(t, hub).Create(t.Context(), registration("one", edge)))
	p := startTalker(t, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + hole.Addr().String(),
		"OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_BSP_MAX_QUEUE_SIZE=16", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=8",
	}, quiet(kubeconfig)...)
	began := time.Now()
	waitForCluster(t, hub, "one")
	kubectl(t, kubeconfig, "wait", "--for=condition=Ready", "--timeout=60s", "clusters.clusterfx.dev/one")
	p.expect(&p.stderr, saidByReconciler)
	t.Logf("Ready after %s", time.Since(began))
	stopping := time.Now()
	p.signal(syscall.SIGTERM)
	p.expectExit(0)
	took := time.Since(stopping)
	if longest := tracing.StopTimeout + 5*time.Second; took > longest {
		t.Errorf("the hub takes %s to end, want %s at most", took, longest)
	}
	t.Logf("the hub ends within %s", took)
	p.expect(&p.stderr, "The last traces were not exported")
}

// A hub with wrong variables logs the reason when it starts, without the value, which may be secret, and works without
// traces.
func TestRun_TracesThatCannotBe(t *testing.T) {
	t.Parallel()
	kubeconfig := install(t, fleettest.Cluster(t, "traced"))
	for variable, says := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=:sesame@collector": "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL",
		"OTEL_TRACES_EXPORTER=zipkin":                   ": use otlp or none",
	} {
		p := startTalker(t, []string{variable}, quiet(kubeconfig)...)
		p.expect(&p.stderr, "There are no traces")
		p.expect(&p.stderr, "Starting workers")
		p.signal(syscall.SIGTERM)
		p.expectExit(0)
		p.expect(&p.stderr, says)
		if strings.Contains(p.stderr.String(), "sesame") {
			t.Errorf("the log repeats the value: %s", p.stderr.String())
		}
	}
}

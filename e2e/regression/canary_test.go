// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

// talker is a module with a typical controller, which returns each error to controller-runtime, which logs it.
func talker() registry.Module {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch", "create"}}}
	hub := fx.Invoke(func(log logr.Logger, r *registry.Registry, mgr ctrl.Manager) error {
		return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return talkToAll(ctx, log, r) }))
	})
	return registry.NewModule("talker", registry.ModuleOptions{Rules: rules, HubRuns: registry.WithRemotes, Hub: hub, Remote: fx.Invoke(func(p registry.Remote) error {
		write := func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
			made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "talker-", Namespace: "default"}}
			if err := p.Client.Create(ctx, made, client.DryRunAll); err != nil {
				p.Logger.Info("Could not create a ConfigMap", "error", err.Error())
				return ctrl.Result{}, fmt.Errorf("create a ConfigMap: %w", err)
			}
			p.Logger.Info("Created a ConfigMap", "echo", made.Data["echo"])
			return ctrl.Result{}, nil
		}
		return registry.ControllerManagedBy(p.Manager).Named("talker").For(&corev1.ConfigMap{}).
			Complete(reconcile.Func(write))
	})})
}

// talkToAll sends the app's requests from the hub, to each registered remote.
func talkToAll(ctx context.Context, log logr.Logger, r *registry.Registry) error {
	return wait.PollUntilContextCancel(ctx, 2*time.Second, true, func(ctx context.Context) (bool, error) {
		for _, info := range r.List() {
			err := r.WithClient(ctx, info.Name, func(ctx context.Context, remote client.Client) error {
				made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "talker-", Namespace: "default"}}
				err := remote.Create(ctx, made, client.DryRunAll)
				log.Info("Created a ConfigMap from the hub", "remote", info.Name, "failed", err != nil, "echo", made.Data["echo"])
				return err
			})
			if err != nil {
				log.Error(err, "Could not create a ConfigMap from the hub", "remote", info.Name)
			}
		}
		return false, nil
	})
}

// witness records a hub's log and spans.
type witness struct {
	mu    sync.Mutex // protects lines
	lines bytes.Buffer
	spans *tracetest.SpanRecorder
}

func (w *witness) note(prefix, args string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintln(&w.lines, prefix, args)
}

func (w *witness) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines.String()
}

// all returns a hub's output, by destination.
func (w *witness) all(t *testing.T, h *hub, names []string) map[string]string {
	t.Helper()
	var events eventsv1.EventList
	must(t, h.List(t.Context(), &events, client.InNamespace(metav1.NamespaceDefault)))
	families, err := prometheus.Gatherers{h.metrics, ctrlmetrics.Registry}.Gather()
	if len(families) == 0 {
		t.Errorf("got no metrics: %v", err)
	}
	found := map[string]string{
		"log": w.log(), "events": indented(t, events), "metrics": fmt.Sprint(families),
		"traces": fmt.Sprintf("%+v", tracetest.SpanStubsFromReadOnlySpans(w.spans.Ended())),
	}
	for _, name := range names {
		found["Cluster "+name] = indented(t, h.get(name))
	}
	return found
}

func indented(t *testing.T, what any) string {
	t.Helper()
	text, err := json.MarshalIndent(what, "", " ")
	must(t, err)
	return string(text)
}

// A remote that echoes the hub's token, in each way of echoes, gets neither the token nor its own words into a log,
// event, status, metric or trace.
// Promise: no credential is in a log, an event, a status, an error, a metric or a trace.
func TestCanary(t *testing.T) {
	t.Parallel()
	w := &witness{spans: tracetest.NewSpanRecorder()}
	h := newHub(t, func(o *app.Options) {
		o.Log = funcr.New(w.note, funcr.Options{Verbosity: 1})
		o.Modules = append(o.Modules, talker())
		o.Traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.spans))
	})
	h.start()
	servers, names := map[string]*echo{}, map[string]string{}
	for about, script := range echoes() {
		servers[about], names[about] = newEcho(t, one, script), unique(about)
		h.putSecret(names[about], servers[about].data())
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: names[about], Namespace: hubv1.DefaultNamespace}}
		renew := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"kube-system/default"}}}`, hubv1.AnnotationRenewToken)
		must(t, h.Patch(t.Context(), secret, client.RawPatch("application/merge-patch+json", renew)))
		h.create(names[about], nil)
	}
	for _, about := range slices.Sorted(maps.Keys(servers)) {
		patiently(t, func() error {
			if n := servers[about].echoed.Load(); n < 1 {
				return fmt.Errorf("%s: the server echoed the token %d times, want once at least", about, n)
			}
			return nil
		})
	}
	for _, about := range []string{"write", "renewal", "write-time"} {
		patiently(t, func() error { return w.sawError("Reconciler error", names[about]) })
	}
	patiently(t, func() error { return w.sawError("A watch failed", names["list-time"]) })
	patiently(t, func() error { // The informer has retried.
		if n := servers["watch"].echoed.Load(); n < 3 {
			return fmt.Errorf("got %d watches, want 3", n)
		}
		return nil
	})
	for _, text := range []string{"Created a ConfigMap", "Created a ConfigMap from the hub"} {
		patiently(t, func() error { return w.sawError(text+`"`, names["told"]) })
	}
	for where, text := range w.all(t, h, slices.Collect(maps.Values(names))) {
		for about, e := range servers {
			testkit.Equal(t, e.leaks(text), "", where, "contains the token of", about)
		}
		if at := strings.Index(strings.ToLower(text), "spoken"); at >= 0 {
			t.Errorf("%s contains words of a remote: %s", where, text[max(0, at-300):min(len(text), at+100)])
		}
	}
	h.expectRuns()
}

// patiently waits until check returns nil. It polls slowly: the checks read the whole log, and there are many servers.
func patiently(t *testing.T, check func() error) {
	t.Helper()
	gomega.NewWithT(t).Eventually(check).WithTimeout(5 * time.Minute).WithPolling(500 * time.Millisecond).Should(gomega.Succeed())
}

// sawError returns nil if the log has a text in a line about a Cluster.
func (w *witness) sawError(text, name string) error {
	for line := range strings.Lines(w.log()) {
		if strings.Contains(line, text) && strings.Contains(line, name) {
			return nil
		}
	}
	return fmt.Errorf("the log has no %q of %s", text, name)
}

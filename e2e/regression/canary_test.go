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

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/registry"
)

// talker is a module that does what modules do, and returns each error to controller-runtime, which logs it.
func talker() registry.Module {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch", "create"}}}
	return registry.NewModule("talker", registry.ModuleOptions{Rules: rules, Remote: fx.Invoke(func(p registry.Remote) error {
		write := func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
			made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "talker-", Namespace: "default"}}
			if err := p.Client.Create(ctx, made, client.DryRunAll); err != nil {
				p.Log.Info("Could not create a ConfigMap", "error", err.Error())
				return ctrl.Result{}, fmt.Errorf("create a ConfigMap: %w", err)
			}
			return ctrl.Result{}, nil
		}
		return ctrl.NewControllerManagedBy(p.Manager).Named("talker").For(&corev1.ConfigMap{}).
			Complete(registry.Supervise(p.Manager, reconcile.Func(write)))
	})})
}

// witness keeps everything that a hub makes known.
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

// all returns what was made known, by where.
func (w *witness) all(t *testing.T, h *hub, names []string) map[string]string {
	t.Helper()
	var events eventsv1.EventList
	must(t, h.List(t.Context(), &events, client.InNamespace(metav1.NamespaceDefault)))
	families, err := prometheus.Gatherers{h.metrics, ctrlmetrics.Registry}.Gather()
	if len(families) == 0 {
		t.Errorf("there are no metrics: %v", err)
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

// A remote that sends the hub's token back, in whatever way, gets it into no log, event, status, metric or trace.
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
		eventually(t, func() error {
			if n := servers[about].echoed.Load(); n < 1 {
				return fmt.Errorf("%s: the token was sent back %d times", about, n)
			}
			return nil
		})
	}
	for _, about := range []string{"write", "written", "kind", "failure", "type", "broken", "renewal"} {
		eventually(t, func() error { return w.sawError(names[about]) })
	}
	for where, text := range w.all(t, h, slices.Collect(maps.Values(names))) {
		for about, e := range servers {
			if near := e.leaks(text); near != "" {
				t.Errorf("%s has the token of %s: %s", where, about, near)
			}
		}
	}
	h.expectRuns()
}

// sawError returns nil when an error of a reconciler that concerns a Cluster was logged.
func (w *witness) sawError(name string) error {
	for line := range strings.Lines(w.log()) {
		if strings.Contains(line, "Reconciler error") && strings.Contains(line, name) {
			return nil
		}
	}
	return fmt.Errorf("no error of %s was logged", name)
}

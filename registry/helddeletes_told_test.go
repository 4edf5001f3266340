// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) log() logr.Logger {
	return funcr.New(func(_, line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, line)
	}, funcr.Options{Verbosity: 1})
}

func (l *logLines) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// A hold is logged when it begins and when it ends, without the names of objects, and has a series of a metric as long as
// it is in force. That is so for the hub as for a remote.
func TestDeletes_AHoldIsLogged(t *testing.T) {
	t.Parallel()
	var log logLines
	var ahead atomic.Int64
	metrics := prometheus.NewRegistry()
	r, app, outside := appOf(t, func(o *registry.Options) {
		o.Log, o.Metrics = log.log(), metrics
		o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	hub := clientFor(t, fleettest.Cluster(t, "hub"))
	for _, one := range []struct{ outside, module client.Client }{{outside, app.Client}, {hub, app.HubClient}} {
		namespace := objectsOf(t, one.outside, 23)
		for i := range 23 {
			if err := one.module.Delete(t.Context(), configMap(namespace, i)); err != nil && !deletes.IsHeld(err) {
				t.Fatal(err)
			}
		}
	}
	const name = "clusterfx_delete_holds"
	labels := func(cluster string) map[string]string {
		return map[string]string{"cluster": cluster, "module": "pruner", "resource": "configmaps"}
	}
	for _, h := range r.HeldDeletes() {
		if got := metric(t, metrics, name, labels(h.Cluster)); got != 1 {
			t.Errorf("%s of cluster %q is %v, want 1", name, h.Cluster, got)
		}
		began := log.with(h.ID)
		want := fmt.Sprintf(`"msg"="Deletes of a module are held" "hold"="%s" "module"="pruner" "resource"="configmaps" "cluster"="%s" "fleet"=false "deleted"=20 `, h.ID, h.Cluster)
		if len(began) != 1 || !strings.Contains(began[0], want) || strings.Contains(began[0], "o-0") {
			t.Errorf("the lines about %s are %q, want %s", h.ID, began, want)
		}
	}
	held := r.HeldDeletes()
	if len(held) != 2 {
		t.Fatalf("the holds are %+v, want one of the remote and one of the hub", held)
	}
	ahead.Store(int64(11 * time.Minute))
	eventually(t, func() error {
		if ended := log.with("A hold of deletes has ended"); len(ended) != 2 {
			return fmt.Errorf("the lines about the end are %q", ended)
		}
		return nil
	})
	for _, h := range held {
		if lines := log.with(h.ID); len(lines) != 2 {
			t.Errorf("the lines about %s are %q, want 2", h.ID, lines)
		}
		if got := metric(t, metrics, name, labels(h.Cluster)); got != 0 {
			t.Errorf("%s of cluster %q is %v, want 0", name, h.Cluster, got)
		}
	}
}

// The end of a remote ends no hold, unless the remote is removed for good: a Cluster that vanishes and comes back has its holds.
// Promise: the end of a remote ends no hold.
func TestDeletes_StopKeepsHolds(t *testing.T) {
	t.Parallel()
	r, app, outside := appOf(t, nil)
	namespace := objectsOf(t, outside, 21)
	for i := range 21 {
		if err := app.Client.Delete(t.Context(), configMap(namespace, i)); err != nil && !deletes.IsHeld(err) {
			t.Fatal(err)
		}
	}
	must(t, r.Stop(t.Context(), "one"))
	if held := r.HeldDeletes(); len(held) != 1 {
		t.Errorf("the holds after a stop are %+v, want 1", held)
	}
	_, config := remote(t, "one")
	spawn(t, r, "one", config)
	must(t, r.Remove(t.Context(), "one"))
	if held := r.HeldDeletes(); len(held) != 0 {
		t.Errorf("the holds after a removal are %+v, want none", held)
	}
}

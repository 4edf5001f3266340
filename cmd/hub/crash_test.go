// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
	"github.com/clusterfx/clusterfx/registry"
)

// panicText is what a panic says, which may be what a remote wrote.
const panicText = "the text of a remote\ngoroutine 1 [running labels:{\"cluster\": \"healthy\"}]:"

// panicker is a module with a goroutine of its own, which panics when the remote has the ConfigMap with its name.
func panicker() registry.Module {
	return registry.NewModule("panicker", registry.ModuleOptions{Remote: fx.Invoke(func(r registry.Remote) error {
		return r.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
			go func() {
				key := client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "panic-" + string(r.Name)}
				_ = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
					return r.APIReader.Get(ctx, key, &corev1.ConfigMap{}) == nil, nil
				})
				if ctx.Err() == nil {
					panic(panicText)
				}
			}()
			<-ctx.Done()
			return nil
		}))
	})})
}

// crashing are two Clusters of one remote, and the hubs that run them one after the other.
type crashing struct {
	t    *testing.T
	edge *fleet.Cluster
	c    client.Client
	as   string
	args []string
}

func newCrashing(t *testing.T, as string) *crashing {
	t.Helper()
	hub := fleettest.Borrow(t, pool.Hub)
	k := &crashing{t: t, edge: fleettest.Borrow(t, pool.Remote), c: clientFor(t, hub), as: as}
	k.args = []string{
		"run", "--kubeconfig=" + install(t, hub), "--allow-cidr=127.0.0.0/8", "--allow-duplicate-clusters",
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--crash-file=" + filepath.Join(t.TempDir(), "crash"),
	}
	for _, name := range []string{"healthy", "other"} {
		must(t, k.c.Create(t.Context(), registration(name, k.edge)))
	}
	return k
}

func (k *crashing) start() *program { return startWith(k.t, []string{asHub + "=" + k.as}, k.args...) }

func (k *crashing) cluster(name string) (*hubv1.Cluster, error) {
	found := &hubv1.Cluster{}
	return found, k.c.Get(k.t.Context(), client.ObjectKey{Name: name}, found)
}

// isReady returns an error unless a Cluster is Ready.
func (k *crashing) isReady(name string) error {
	found, err := k.cluster(name)
	if err == nil && !meta.IsStatusConditionTrue(found.Status.Conditions, hubv1.ConditionReady) {
		err = fmt.Errorf("%s is not Ready: %+v", name, found.Status.Conditions)
	}
	return err
}

func (k *crashing) isQuarantined(name string) (message string, is bool) {
	found, err := k.cluster(name)
	if err != nil {
		return "", false
	}
	modules := meta.FindStatusCondition(found.Status.Conditions, hubv1.ConditionModulesReady)
	if modules == nil || modules.Reason != hubv1.ReasonQuarantined {
		return "", false
	}
	return modules.Message, true
}

// A module that panics in a goroutine of its own long after its app was Ready ends one process: the next one quarantines the Cluster
// and takes nothing of the text of the panic but names.
func TestRun_PanicConvicts(t *testing.T) {
	t.Parallel()
	k := newCrashing(t, asPanicker)
	first := k.start()
	eventually(t, func() error { return k.isReady("healthy") })
	eventually(t, func() error { return k.isReady("other") })
	eventually(t, func() error { return noStarts(t, k.c) }) // No record suspects an app.
	must(t, clientFor(t, k.edge).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "panic-other"},
	}))
	first.expectExit(2)
	next := k.start()
	var message string
	eventually(t, func() (err error) {
		is := false
		if message, is = k.isQuarantined("other"); !is {
			err = fmt.Errorf("the Cluster is not quarantined")
		}
		return err
	})
	for _, part := range []string{"Crash 1 ", "a goroutine panicked, of the module panicker", "annotate clusters.clusterfx.dev other"} {
		if !strings.Contains(message, part) {
			t.Errorf("the condition does not say %q: %s", part, message)
		}
	}
	eventually(t, func() error { return k.isReady("healthy") })
	found, err := k.cluster("other")
	must(t, err)
	for what, text := range map[string]string{"log": next.stderr.String(), "Cluster": fmt.Sprint(found)} {
		if strings.Contains(text, "the text of a remote") {
			t.Errorf("the %s has the text of the panic: %s", what, text)
		}
	}
	next.expect(&next.stderr, "The app starts")
	next.expect(&next.stderr, "The app is Ready")
	next.signal(syscall.SIGTERM)
	next.expectExit(0)
}

// Three processes that are killed while they start all apps make no app guilty: the next one starts them one at a time.
func TestRun_KillsConvictNobody(t *testing.T) {
	t.Parallel()
	k := newCrashing(t, asStock)
	names := []string{"healthy", "other"}
	for ends := range 3 {
		one := k.start()
		eventually(t, func() error { return areStarting(t, k.c, len(names), ends) })
		one.signal(syscall.SIGKILL)
		_ = one.exit()
	}
	last := k.start()
	eventually(t, func() error {
		for _, name := range names {
			found, err := k.cluster(name)
			if text := found.Annotations[hubv1.AnnotationCrashes]; text != "" {
				t.Fatalf("%s has the crashes %s", name, text)
			}
			if err := errors.Join(err, k.isReady(name)); err != nil {
				return err
			}
		}
		return noStarts(t, k.c) // The suspects have been Ready in this process.
	})
	last.expect(&last.stderr, "The app is a suspect and waits to start alone")
	last.signal(syscall.SIGTERM)
	last.expectExit(0)
}

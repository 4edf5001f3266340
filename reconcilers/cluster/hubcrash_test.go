// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
)

// The variables with the kubeconfig and the namespace of a child process of TestCluster_ThatCrashesTheHub.
const (
	childKubeconfig = "CLUSTERFX_TEST_KUBECONFIG"
	childNamespace  = "CLUSTERFX_TEST_NAMESPACE"
)

// poison ends the whole process when it starts for a Cluster with that word in its name.
func poison() registry.Module {
	return registry.NewModule("poison", registry.ModuleOptions{
		Remote: fx.Invoke(func(name registry.ClusterName, lifecycle fx.Lifecycle) {
			lifecycle.Append(fx.StartHook(func(ctx context.Context) error {
				if strings.Contains(string(name), "poison") {
					go panic("poison") // The hub cannot contain this panic.
					<-ctx.Done()
				}
				return nil
			}))
		}),
	})
}

// TestHubProcess is a hub in a separate process, which ends when its standard input is closed.
func TestHubProcess(t *testing.T) {
	path, namespace := os.Getenv(childKubeconfig), os.Getenv(childNamespace)
	if path == "" {
		t.Skip("runs in a child process of TestCluster_ThatCrashesTheHub only")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{t: t, namespace: namespace, options: defaultOptions()}
	h.options.modules = []registry.Module{poison(), idle("harmless")}
	h.run(config)
	_, _ = io.Copy(io.Discard, os.Stdin)
	h.stop()
}

// child is a process with TestHubProcess.
type child struct {
	*exec.Cmd
	hold io.Closer
	said bytes.Buffer // read it only after done
	done chan error
}

func startChild(t *testing.T, kubeconfig, namespace string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(os.Args[0], "-test.run=^TestHubProcess$", "-test.timeout=5m"), done: make(chan error, 1)}
	c.Env = append(os.Environ(), childKubeconfig+"="+kubeconfig, childNamespace+"="+namespace)
	c.Stdout, c.Stderr = &c.said, &c.said
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.hold = stdin
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { c.done <- c.Wait() }()
	t.Cleanup(func() { _ = c.Process.Kill() })
	return c
}

// expectCrash waits until the process has crashed.
func (c *child) expectCrash(t *testing.T) {
	t.Helper()
	select {
	case err := <-c.done:
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("the hub ended with %v, want a crash", err)
		}
	case <-time.After(patience):
		t.Fatal("the hub does not crash")
	}
}

// Rule S27, guarantee G19: a Cluster that crashes the hub is quarantined, and the other Clusters become Ready.
func TestCluster_ThatCrashesTheHub(t *testing.T) {
	t.Parallel()
	fleettest.Slow(t, "./reconcilers/cluster/internal/journal TestJournal_KnowsWhatTheLastProcessWasStarting")
	h := newIdleHub(t, nil)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	h.must(os.WriteFile(kubeconfig, prepared.kubeconfig, 0o600))
	culprit := h.name("a-poison") // first, wherever names have an order
	names := []string{culprit, h.name("b"), h.name("c")}
	for _, name := range names {
		h.putKubeconfig(name, fleettest.Cluster(t, "one").Kubeconfig())
		h.newCluster(name, nil)
	}
	for range 3 {
		startChild(t, kubeconfig, h.namespace).expectCrash(t)
	}
	last := time.Now()
	hub := startChild(t, kubeconfig, h.namespace)
	c := h.expectQuarantine(culprit)
	expectCondition(t, c, hubv1.ConditionStalled, metav1.ConditionTrue)
	h.expectEvent(culprit, "Quarantined")
	h.eventually(func() error {
		for _, name := range names[1:] {
			if _, suspected := h.record()[name]; suspected {
				return fmt.Errorf("the journal has an entry of %s: %s", name, summary(h.get(name)))
			}
			h.expectReady(name)
		}
		return nil
	})
	took := time.Since(last)
	t.Logf("the other Clusters were Ready, and acquitted, %s after the third crash", took)
	if took > time.Minute {
		t.Errorf("the other Clusters were Ready %s after the third crash, want a minute at most", took)
	}

	t.Run("another try is asked for, and fails", func(*testing.T) {
		h.change(culprit, func(c *hubv1.Cluster) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, hubv1.AnnotationRetry, "please")
		})
		hub.expectCrash(t)
		hub = startChild(t, kubeconfig, h.namespace)
		h.eventually(func() error {
			if record := h.record()[culprit]; !strings.Contains(record, `"crashes":4`) {
				return fmt.Errorf("got journal entry %s, want 4 crashes", record)
			}
			if c := h.expectQuarantine(culprit); !strings.Contains(summary(c), "4 times") {
				return errors.New(summary(c))
			}
			return nil
		})
	})
	t.Run("another spec makes it run, and it is acquitted", func(*testing.T) {
		h.change(culprit, func(c *hubv1.Cluster) { c.Spec.Modules = []string{"harmless"} })
		h.expectReady(culprit)
		h.eventually(func() error {
			if record := h.record(); len(record) != 0 {
				return fmt.Errorf("got journal entries %v, want an empty journal", record)
			}
			return nil
		})
	})
	h.must(hub.hold.Close())
	select {
	case err := <-hub.done:
		if err != nil {
			t.Errorf("the hub ended with %v, want no error: %s", err, &hub.said)
		}
	case <-time.After(patience):
		t.Error("the hub does not end")
	}
}

// expectQuarantine waits until a Cluster is quarantined, and checks that its message has advice.
func (h *hub) expectQuarantine(name string) *hubv1.Cluster {
	h.t.Helper()
	c := h.expect(name, hubv1.ConditionModulesReady, metav1.ConditionFalse, hubv1.ReasonQuarantined)
	message := meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionReady).Message
	if !strings.Contains(message, "crashed") || !strings.Contains(message, hubv1.AnnotationRetry) {
		h.t.Errorf("the message does not name the crash and the annotation: %s", message)
	}
	return c
}

// record returns the data of the journal's ConfigMaps.
func (h *hub) record() map[string]string {
	h.t.Helper()
	all := map[string]string{}
	for _, name := range cluster.JournalNames() {
		var found corev1.ConfigMap
		h.must(client.IgnoreNotFound(h.Get(h.t.Context(), client.ObjectKey{Namespace: h.namespace, Name: name}, &found)))
		maps.Copy(all, found.Data)
	}
	return all
}

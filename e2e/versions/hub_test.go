// SPDX-License-Identifier: Apache-2.0

package versions_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// configuration: each of eight remotes reaches its own limit of deletes, and not that of the fleet.
const configuration = `apiVersion: config.clusterfx.dev/v1alpha1
kind: HubConfiguration
modules:
- name: tenants
  clusters: {}
- name: sync
  deletes: {perFleet: 100}
`

// syncRules are a rule with a CRD and a status that comes back, and a rule whose originals lose their label.
const syncRules = `apiVersion: clusterfx.dev/v1alpha1
kind: SyncRule
metadata: {name: orders}
spec:
  from: Hub
  kind: {apiVersion: example.com/v1, kind: Order, resource: orders}
  namespaces: {template: "orders-{{cluster}}"}
  to: {naming: Mirror, namespace: shop}
  status: Return
  bringCRD: IfAbsent
---
apiVersion: clusterfx.dev/v1alpha1
kind: SyncRule
metadata: {name: volumes}
spec:
  from: Hub
  kind: {apiVersion: v1, kind: PersistentVolumeClaim, resource: persistentvolumeclaims}
  namespaces: {names: [shop]}
  objects: {selector: {matchLabels: {sync: everywhere}}}
  to: {naming: Mirror, namespace: shop}
`

// hub is a management cluster, and the programs that run against it.
type hub struct {
	t          *testing.T
	dir        string
	program    string // the binary for commands and new replicas
	kubeconfig string
	config     string
	nats       *nats.Server
	cluster    *fleet.Cluster
	admin      client.WithWatch
	logs       *os.File
	replicas   map[string]*exec.Cmd
	active     int
	flags      []string          // more flags of replicas
	health     map[string]string // the addresses of their health
}

// newHub needs a cluster. Nothing is installed in it.
func newHub(t *testing.T, cluster *fleet.Cluster, program string) *hub {
	t.Helper()
	h := &hub{t: t, dir: t.TempDir(), program: program, cluster: cluster, nats: nats.Start(t), replicas: map[string]*exec.Cmd{}, health: map[string]string{}, active: 1}
	h.admin = fleettest.Client(t, cluster, hubv1.AddToScheme)
	h.kubeconfig = testkit.File(t, "hub.kubeconfig", cluster.Kubeconfig())
	h.config = testkit.File(t, "hub.yaml", configuration)
	var err error
	h.logs, err = os.Create(filepath.Join(h.dir, "hub.log"))
	must(t, err)
	t.Cleanup(h.printLogs)
	return h
}

func (h *hub) printLogs() {
	text, err := os.ReadFile(h.logs.Name())
	_ = h.logs.Close()
	if err == nil && h.t.Failed() {
		lines := strings.Split(string(text), "\n")
		h.t.Log(strings.Join(lines[max(0, len(lines)-60):], "\n"))
	}
}

// commandTimeout is reached only if a command hangs.
const commandTimeout = 5 * time.Minute

// command runs a command of the hub as its administrator, and returns what it prints.
func (h *hub) command(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(h.t.Context(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.program, append(args, "--kubeconfig", h.kubeconfig)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.Env = &out, &out, h.dir, append(os.Environ(), variable+"=1")
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("hub %s: %w: %s", args[0], err, strings.TrimSpace(out.String()))
	}
	return out.String(), nil
}

// install installs the CRD, the namespace and the roles. No Pods run here.
func (h *hub) install() error {
	if _, err := h.command("install", "--yes", "--wait=false", "--image", "example.com/hub:v1", "--config", h.config); err != nil {
		return err
	}
	return inText(syncRules, func(one *unstructured.Unstructured) error {
		return soon(h.t.Context(), func() error { return client.IgnoreAlreadyExists(h.admin.Create(h.t.Context(), one.DeepCopy())) })
	})
}

// inText calls do for the objects in a text.
func inText(text string, do func(*unstructured.Unstructured) error) error {
	var problems []error
	for document := range strings.SplitSeq(text, "---\n") {
		one := &unstructured.Unstructured{}
		err := yaml.Unmarshal([]byte(document), &one.Object)
		if err == nil && len(one.Object) > 0 {
			err = do(one)
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// start starts a replica with the present program.
func (h *hub) start(name string) {
	h.t.Helper()
	h.health[name] = fleettest.FreeAddress(h.t)
	cmd := exec.CommandContext(context.WithoutCancel(h.t.Context()), h.program, append([]string{
		"run", "--kubeconfig", h.kubeconfig,
		"--alone=false", fmt.Sprintf("--active-replicas=%d", h.active), "--replica-name", name, "--allow-cidr", "127.0.0.0/8",
		"--config", h.config, "--nats-url", h.nats.URL(), "--nats-create-buckets", "--log-format", "console",
		"--metrics-bind-address", fleettest.FreeAddress(h.t), "--health-probe-bind-address", h.health[name],
	}, h.flags...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = h.dir, h.logs, h.logs, append(os.Environ(), variable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(h.t, cmd.Start())
	h.replicas[name] = cmd
	h.t.Cleanup(func() { _ = h.end(name, syscall.SIGKILL) })
}

// end sends a signal to a replica, and waits until the process has ended.
func (h *hub) end(name string, signal syscall.Signal) error {
	cmd := h.replicas[name]
	if cmd == nil {
		return nil
	}
	delete(h.replicas, name)
	if err := cmd.Process.Signal(signal); err != nil {
		return err
	}
	err := cmd.Wait()
	if exit := new(exec.ExitError); errors.As(err, &exit) && signal == syscall.SIGKILL {
		return nil
	}
	return err
}

// isReady returns an error while a replica does not say that it is ready.
func (h *hub) isReady(name string) error {
	request, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, "http://"+h.health[name]+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s is not ready: %s", name, response.Status)
	}
	return nil
}

// patience is how long a state may take. Only what fails waits so long.
const patience = 2 * time.Minute

// soon repeats a check until it passes.
func soon(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", patience, err)
		case <-again.C:
		}
	}
}

// condition returns an error unless a Cluster has a condition that is True, with one of the reasons if there are any.
func (h *hub) condition(name, kind string, reasons ...string) (*hubv1.Cluster, error) {
	one := &hubv1.Cluster{}
	if err := h.admin.Get(h.t.Context(), client.ObjectKey{Name: name}, one); err != nil {
		return nil, err
	}
	found := meta.FindStatusCondition(one.Status.Conditions, kind)
	if found == nil || found.Status != "True" || len(reasons) > 0 && !strings.Contains(strings.Join(reasons, " "), found.Reason) {
		return nil, fmt.Errorf("%s: %s is %+v, want %v", name, kind, found, reasons)
	}
	return one, nil
}

// build builds the hub of a folder with its source.
func build(t *testing.T, source string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hub")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", file, "./cmd/hub")
	cmd.Dir = source
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("build the hub in %s: %v\n%s", source, err, out)
	}
	return file
}

const repository = "../.."

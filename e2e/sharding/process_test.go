// SPDX-License-Identifier: Apache-2.0

package sharding_test

import (
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// variable has the settings of a process that is a replica.
const variable = "CLUSTERFX_SHARDING_REPLICA"

// settings are what a replica needs.
type settings struct {
	Kubeconfig, Name, Metrics, Health, Crash string
	// Active is how many replicas may run Clusters; 0 for all.
	Active int
	// Reads gives it a module that reads, in place of the one that writes.
	Reads bool
	// Unique makes one of two remotes that are one cluster a duplicate.
	Unique bool
	// Alone makes it a hub without replicas.
	Alone bool
}

const shardCount = 16

// writeEvery is how often the module of the replicas writes to each remote.
const writeEvery = 200 * time.Millisecond

// runReplica is a replica. It ends in good order after SIGTERM.
func runReplica(ctx context.Context, text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	o := app.Options{
		Config: config, Modules: []registry.Module{ticker()}, Log: logTo(os.Stderr, s.Name),
		Active: s.Active, Shards: shardCount, LeaveTimeout: 20 * time.Second,
	}
	if s.Reads {
		o.Modules = []registry.Module{reader()}
	}
	o.MetricsAddress, o.HealthAddress, o.Registry.Metrics = s.Metrics, s.Health, ctrlmetrics.Registry
	o.Registry.Replica, o.CrashFile = s.Name, s.Crash
	o.Registry.AllowDuplicates, o.Alone = !s.Unique, s.Alone
	o.Registry.Policy.AllowCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	return app.Run(ctx, o)
}

// poison begins the name of a Cluster whose app ends its process.
const poison = "poison"

// ticker is a module that writes to its remote all the time, without a look at what it wrote before.
func ticker() registry.Module {
	return registry.NewModule("ticker", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		if strings.HasPrefix(string(p.Name), poison) {
			go func() { panic("the Cluster ends its process") }()
		}
		return p.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
			again := time.NewTicker(writeEvery)
			defer again.Stop()
			for {
				tick(ctx, p)
				select {
				case <-again.C:
				case <-ctx.Done():
					return nil
				}
			}
		}))
	})})
}

// tick writes once. The gate refuses the write of a replica that does not hold the remote.
func tick(ctx context.Context, p registry.Remote) {
	mark := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "tick-" + string(p.Name)},
	}
	text, err := json.Marshal(map[string]any{"data": map[string]string{"at": time.Now().Format(time.RFC3339Nano)}})
	if err != nil {
		return
	}
	err = p.Client.Patch(ctx, mark, client.RawPatch("application/merge-patch+json", text))
	if client.IgnoreNotFound(err) == nil && err != nil {
		_ = p.Client.Create(ctx, mark) // The next patch shows whether it exists.
	}
}

// replica is a process with a hub that has a part of the Clusters.
type replica struct {
	t       testing.TB
	name    string
	metrics string // the address of its metrics
	health  string // and of /readyz
	cmd     *exec.Cmd
	done    chan struct{}
}

func (s *stage) start(name string) *replica {
	s.t.Helper()
	return s.startWith(settings{Name: name, Active: s.active, Reads: s.reads, Unique: s.unique})
}

func (s *stage) startWith(o settings) *replica {
	s.t.Helper()
	name := o.Name
	o.Kubeconfig, o.Metrics, o.Health = s.kubeconfigOf(name), fleettest.FreeAddress(s.t), fleettest.FreeAddress(s.t)
	o.Crash = filepath.Join(s.dir, name+".crash")
	text, err := json.Marshal(o)
	must(s.t, err)
	self, err := os.Executable()
	must(s.t, err)
	r := &replica{t: s.t, name: name, metrics: o.Metrics, health: o.Health, done: make(chan struct{})}
	r.cmd = exec.CommandContext(context.WithoutCancel(s.t.Context()), self)
	r.cmd.Env = append(os.Environ(), variable+"="+string(text))
	r.cmd.Stdout, r.cmd.Stderr = s.logs, s.logs
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(s.t, r.cmd.Start())
	go func() {
		defer close(r.done)
		_ = r.cmd.Wait() // It may be killed.
	}()
	s.t.Cleanup(r.kill)
	s.replicas[name] = r
	return r
}

// startAll starts replicas, and waits until they share the Clusters and all of these are Ready.
func (s *stage) startAll(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.start(name)
	}
	s.expectReady()
	s.expectWriters(names...)
}

// kill kills the process, also a frozen one, and returns when it has ended.
func (r *replica) kill() {
	_ = r.cmd.Process.Kill() // It may have ended.
	<-r.done
}

// leave makes the process end in good order, and returns when it has ended.
func (r *replica) leave() {
	r.t.Helper()
	must(r.t, r.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-r.done:
	case <-time.After(patience):
		r.t.Fatalf("%s has not ended after SIGTERM", r.name)
	}
}

func (r *replica) freeze() { must(r.t, r.cmd.Process.Signal(syscall.SIGSTOP)) }

func (r *replica) thaw() { must(r.t, r.cmd.Process.Signal(syscall.SIGCONT)) }

// SPDX-License-Identifier: Apache-2.0

package entities_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
)

// order is the value of the entities.
type order struct {
	Text string `json:"text"`
}

const ordersBucket = "orders"

const variable = "CLUSTERFX_ENTITIES_PROCESS"

// settings are what a process needs.
type settings struct {
	NATS, Kubeconfig, Namespace string
	// DieBefore is before which of its writes, to NATS or to the remote, the process kills itself. Default: never.
	DieBefore int64
}

type dying struct{ before, writes atomic.Int64 }

func (d *dying) count() {
	if d.writes.Add(1) == d.before.Load() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // The signal may take a moment.
	}
}

// dyingClient counts its writes.
type dyingClient struct {
	client.Client
	dying *dying
}

func (c dyingClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, o ...client.ApplyOption) error {
	c.dying.count()
	return c.Client.Apply(ctx, obj, o...)
}

func (c dyingClient) Delete(ctx context.Context, obj client.Object, o ...client.DeleteOption) error {
	c.dying.count()
	return c.Client.Delete(ctx, obj, o...)
}

// runProcess is the process. It ends only with an error.
func runProcess(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	d := &dying{}
	d.before.Store(s.DieBefore)
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{s.Namespace: {}}},
		NewClient: func(c *rest.Config, o client.Options) (client.Client, error) {
			made, err := client.New(c, o)
			return dyingClient{Client: made, dying: d}, err
		},
	})
	if err != nil {
		return err
	}
	anchor, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	connection, err := natshub.New(natshub.Options{URL: s.NATS}, natshub.Environment{
		HubID: hubID, Logger: logr.Discard(),
		Gate: func() error {
			d.count()
			return nil
		},
		AnchorOf: func(name string) bucket.Anchor {
			return natshub.Anchor{Client: anchor, Reader: anchor, Namespace: s.Namespace, Bucket: name}
		},
	})
	if err != nil {
		return err
	}
	if err := s.addController(manager, connection); err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	failed := make(chan error, 2)
	go func() { failed <- connection.Run(ctx) }()
	go func() { failed <- manager.Start(ctx) }()
	return errors.Join(<-failed, <-failed)
}

func (s *settings) addController(manager ctrl.Manager, connection *natshub.Connection) error {
	orders, err := connection.Follow(ordersBucket)
	if err != nil {
		return err
	}
	status, err := connection.Status(ordersBucket)
	if err != nil {
		return err
	}
	_, err = entity.Add(entity.NewStore(orders, entity.JSON[order](nil)), entity.Func[order](s.reconcile), entity.Options{
		Name: "orders", Marks: entity.Marks{Hub: hubID, Kind: "Order"}, Manager: manager, Cluster: "remote",
		Owns: []client.Object{&corev1.ConfigMap{}}, Status: status,
	})
	return err
}

// reconcile makes a ConfigMap of an order.
func (s *settings) reconcile(ctx context.Context, e *entity.Entity[order], out *entity.Secondaries) (entity.Report, error) {
	err := out.Apply(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: e.Key}, Data: map[string]string{"text": e.Value.Text},
	})
	return entity.Report{Ready: err == nil, Reason: "Made"}, err
}

// child is a process.
type child struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}
}

func (s *stage) process(t *testing.T, change func(*settings)) *child {
	t.Helper()
	of := settings{NATS: s.url, Kubeconfig: s.kubeconfig, Namespace: s.namespace}
	if change != nil {
		change(&of)
	}
	text, err := json.Marshal(of)
	must(t, err)
	self, err := os.Executable()
	must(t, err)
	c := &child{t: t, cmd: exec.CommandContext(t.Context(), self), done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), variable+"="+string(text))
	c.cmd.Stdout, c.cmd.Stderr = t.Output(), t.Output()
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, c.cmd.Start())
	go func() {
		defer close(c.done)
		_ = c.cmd.Wait() // It is killed.
	}()
	t.Cleanup(c.kill)
	return c
}

// kill kills the process, and returns when it has ended.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // It may have ended.
	<-c.done
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// Promise: a hub and an agent that are killed at random moments work again as soon as both run.
func TestRun_TunnelKilledAtRandomMoments(t *testing.T) {
	fleettest.Slow(t, "./internal/tunnel TestTunnel_brokenWays")
	t.Parallel()
	const kills = 12
	hub, edge := fleettest.Borrow(t, pool.Hub), fleettest.Borrow(t, pool.Remote)
	kubeconfig, address := install(t, hub), fleettest.FreeAddress(t)
	hubArgs := []string{
		"run", "--kubeconfig=" + kubeconfig, "--allow-cidr=127.0.0.0/8", "--tunnel-bind-address=" + address,
		"--metrics-bind-address=0", "--health-probe-bind-address=0",
	}
	running := start(t, hubArgs...)
	registering := start(t, "register", "edge", "--kubeconfig="+kubeconfig, "--tunnel=ws://"+address, "--cluster-server="+edge.Server(),
		"--cluster-kubeconfig="+write(t, edge), "--yes")
	remote := clientFor(t, edge)
	agentArgs := agentOf(t, remote)
	agent := start(t, agentArgs...)
	registering.expectExit(0)

	seed := uint64(time.Now().UnixNano())
	t.Logf("the seed is %d", seed)
	random, longest := rand.New(rand.NewPCG(seed, 0)), time.Duration(0)
	for i := range kills {
		pause(time.Duration(random.Int64N(int64(time.Second))))
		which := random.IntN(3)
		if which != 0 {
			running.signal(syscall.SIGKILL)
			_ = running.exit()
		}
		if which != 1 {
			agent.signal(syscall.SIGKILL)
			_ = agent.exit()
		}
		must(t, remote.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("new-", i)}}))
		begin := time.Now()
		if which != 0 {
			running = start(t, hubArgs...)
		}
		if which != 1 {
			agent = start(t, agentArgs...)
		}
		expectNodes(t, hub, []string{"edge"}, int32(i+1))
		longest = max(longest, time.Since(begin))
	}
	t.Logf("after each of %d kills the Cluster is Ready and has counted a new Node within %s", kills, longest.Round(time.Second/10))
}

// agentOf returns the arguments of the agent's Deployment, with the key of its Secret in a file.
func agentOf(t *testing.T, remote client.Client) (args []string) {
	t.Helper()
	var secret corev1.Secret
	var deployment appsv1.Deployment
	eventually(t, func() error {
		if err := remote.Get(t.Context(), client.ObjectKey{Namespace: "clusterfx-agent", Name: "clusterfx-agent-key"}, &secret); err != nil {
			return err
		}
		return remote.Get(t.Context(), client.ObjectKey{Namespace: "clusterfx-agent", Name: "clusterfx-agent"}, &deployment)
	})
	file := testkit.File(t, "key.pem", secret.Data["key.pem"])
	for _, arg := range deployment.Spec.Template.Spec.Containers[0].Args {
		if strings.HasPrefix(arg, "--key-file=") {
			arg = "--key-file=" + file
		}
		args = append(args, arg)
	}
	return args
}

// Promise: while all replicas of a hub are replaced, one after the other, its writes in a remote behind a tunnel pause for less than a
// fail-over takes.
func TestRun_TunnelRoll(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub/app TestRun_TunnelOfAnotherReplica")
	t.Parallel()
	hub, edge := fleettest.Borrow(t, pool.Hub), fleettest.Borrow(t, pool.Remote)
	kubeconfig, remote := install(t, hub), clientFor(t, edge)
	replica := func(name string) (p *program, address string) {
		address = fleettest.FreeAddress(t)
		return startWriter(t, hub.Name(), "run", "--kubeconfig="+kubeconfig, "--alone=false", "--active-replicas=1", "--replica-name="+name,
			"--allow-cidr=127.0.0.0/8", "--tunnel-bind-address="+address, "--metrics-bind-address=0", "--health-probe-bind-address=0"), address
	}
	active, at := replica("zero")
	balancer, balance := startBalancer(t)
	balance(at)
	registering := start(t, "register", "edge", "--kubeconfig="+kubeconfig, "--tunnel=ws://"+balancer, "--cluster-server="+edge.Server(),
		"--cluster-kubeconfig="+write(t, edge), "--yes")
	start(t, agentOf(t, remote)...)
	registering.expectExit(0)
	must(t, remote.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: hub.Name()}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: "clusterfx-edge"}},
	}))
	// writes returns the longest time between two writes, the last of which is of a replica.
	writes := func(last time.Time, by *program) (longest time.Duration) {
		eventually(t, func() error {
			w, err := lastWrite(t.Context(), remote, remoteConfigMap(hub.Name()))
			if err != nil {
				return err
			}
			if longest = max(longest, w.Issued.Sub(last)); w.By != by.cmd.Process.Pid {
				last = w.Issued
				return fmt.Errorf("process %d writes, want %d", w.By, by.cmd.Process.Pid)
			}
			return nil
		})
		return longest
	}
	writes(time.Now(), active)
	for _, name := range []string{"one", "two", "three"} {
		next, at := replica(name)
		next.expect(&next.stderr, "An agent has connected")
		balance(at)
		begin := time.Now()
		active.signal(syscall.SIGTERM)
		longest := writes(begin, next)
		active.expectExit(0)
		t.Logf("replica %s writes %s after the end of the one before has begun; the longest pause is %s", name, time.Since(begin), longest)
		if longest > 15*time.Second { // 10 s, since a write may have been in flight when the replica before ended, and a busy machine
			t.Error("that is longer than a fail-over")
		}
		active = next
	}
}

// startBalancer returns an address, and a function that says where new connections to it lead.
func startBalancer(t *testing.T) (address string, balance func(to string)) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	var work sync.WaitGroup
	var target atomic.Value
	t.Cleanup(func() {
		_ = l.Close()
		work.Wait()
	})
	work.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", target.Load().(string)) //nolint:forcetypeassert // see below
			if err != nil {
				_ = from.Close()
				continue
			}
			end := func() { _, _ = from.Close(), to.Close() }
			context.AfterFunc(t.Context(), end)
			for _, one := range [][2]net.Conn{{from, to}, {to, from}} {
				work.Go(func() {
					defer end()
					_, _ = io.Copy(one[0], one[1])
				})
			}
		}
	})
	return l.Addr().String(), func(to string) { target.Store(to) }
}

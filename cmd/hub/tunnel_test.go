// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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

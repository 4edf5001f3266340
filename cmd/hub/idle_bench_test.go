// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// idleTime is the time for which a hub is idle before it is measured.
const idleTime = 10 * time.Second

// BenchmarkIdle runs the program as it is built for the image, without Clusters and with 100 paused Clusters, waits
// until it is ready and has been idle for a while, and reports its resident memory, now and at the peak.
func BenchmarkIdle(b *testing.B) {
	binary := build(b)
	hub := fleettest.Cluster(b, "idle")
	fleettest.InstallCRDs(b, hub.Config())
	kubeconfig := testkit.File(b, "kubeconfig", hub.Kubeconfig())
	admin := adminOf(b, hub)
	for _, clusters := range []int{0, 100} {
		for i := range clusters {
			must(b, admin.Create(b.Context(), &hubv1.Cluster{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("paused-%03d", i)},
				Spec: hubv1.ClusterSpec{
					KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: "paused"}, State: hubv1.ClusterPaused,
				},
			}))
		}
		b.Run(fmt.Sprintf("clusters=%d", clusters), func(b *testing.B) {
			for b.Loop() {
				resident, most := idle(b, admin, binary, "--kubeconfig="+kubeconfig)
				b.ReportMetric(resident, "RSS-MB")
				b.ReportMetric(most, "RSS-peak-MB")
			}
		})
	}
}

// build builds the program as for the image, and returns its path.
func build(b *testing.B) string {
	b.Helper()
	binary := filepath.Join(b.TempDir(), "hub")
	cmd := exec.CommandContext(b.Context(), "go", "build", "-tags=nodev", "-trimpath", "-ldflags=-s -w", "-o", binary, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("build the hub: %v\n%s", err, out)
	}
	return binary
}

// BenchmarkCommands runs the program as it is built for the image: --help, and the modules of 1000 Clusters.
func BenchmarkCommands(b *testing.B) {
	binary := build(b)
	hub := fleettest.Cluster(b, "listed")
	fleettest.InstallCRDs(b, hub.Config())
	kubeconfig := testkit.File(b, "kubeconfig", hub.Kubeconfig())
	must(b, crowd(b.Context(), adminOf(b, hub), 1000))
	for name, args := range map[string][]string{"help": {"--help"}, "get-modules": {"get", "modules", "--kubeconfig=" + kubeconfig}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if out, err := exec.CommandContext(b.Context(), binary, args...).CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
			}
		})
	}
}

func adminOf(b *testing.B, hub *fleet.Cluster) client.Client {
	b.Helper()
	admin := fleettest.Client(b, hub, hubv1.AddToScheme)
	must(b, admin.Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hubv1.DefaultNamespace}}))
	for admin.List(b.Context(), &hubv1.ClusterList{}) != nil { // until discovery has the CRD
		<-time.After(100 * time.Millisecond)
	}
	return admin
}

// idle runs a hub until it has been idle for a while, and returns its memory in MB, now and at the peak.
func idle(b *testing.B, admin client.Client, binary string, args ...string) (resident, most float64) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	health := fleettest.FreeAddress(b)
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, append([]string{
		"run", "--alone=false", "--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=" + health,
	}, args...)...)
	// As in config/hub, so that the garbage collector works as it does there.
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "GOMEMLIMIT=920MiB"), &log, &log
	must(b, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	defer cancel()
	for deadline := time.Now().Add(time.Minute); !ready(ctx, health) || !works(ctx, admin); {
		if time.Now().After(deadline) {
			cancel()
			_ = cmd.Wait()
			b.Fatalf("the hub is not ready:\n%s", log.String())
		}
		<-time.After(50 * time.Millisecond)
	}
	<-time.After(idleTime)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		b.Skipf("there is no /proc here: %v", err)
	}
	return megabytes(b, status, "VmRSS"), megabytes(b, status, "VmHWM")
}

func ready(ctx context.Context, address string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// works reports whether the hub has its shards, and has reported all Clusters as paused.
func works(ctx context.Context, admin client.Client) bool {
	var lease coordinationv1.Lease
	key := client.ObjectKey{Namespace: hubv1.DefaultNamespace, Name: "clusterfx-shard-0"}
	if err := admin.Get(ctx, key, &lease); err != nil || lease.Spec.HolderIdentity == nil {
		return false
	}
	var all hubv1.ClusterList
	if err := admin.List(ctx, &all); err != nil {
		return false
	}
	for _, c := range all.Items {
		ready := meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionReady)
		if ready == nil || ready.Reason != hubv1.ReasonPaused {
			return false
		}
	}
	return true
}

func megabytes(b *testing.B, status []byte, name string) float64 {
	b.Helper()
	found := regexp.MustCompile(`(?m)^` + name + `:\s+(\d+) kB$`).FindSubmatch(status)
	if found == nil {
		b.Fatalf("no %s in %s", name, status)
	}
	kilobytes, err := strconv.ParseFloat(string(found[1]), 64)
	must(b, err)
	return kilobytes * 1024 / 1e6
}

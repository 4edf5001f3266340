// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(fleettest.Main(m, fleettest.NoLeaks())) }

// clientFor returns a client with a short timeout.
func clientFor(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	config.Timeout = 2 * time.Second
	client, err := kubernetes.NewForConfig(config)
	testkit.Must(t, err)
	return client
}

// list sends a request that needs a permission.
func list(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{Limit: 1})
	return err
}

// write creates a ConfigMap in the namespace default, unless it exists.
func write(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// read returns an error if the ConfigMap does not exist.
func read(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{})
	return err
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !os.IsNotExist(err) || !isDir("/proc/self")
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// residentMegabytes returns the resident memory of a process, or 0 if /proc does not have it.
func residentMegabytes(pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kilobytes, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		return 0
	}
	return kilobytes / 1024
}

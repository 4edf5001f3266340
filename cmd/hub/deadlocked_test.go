// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// deadlocks is the name of an auth provider in a kubeconfig. Its transport blocks every write of the status of a
// Cluster forever, and ignores the context.
const deadlocks = "deadlocks"

type deadlock struct{}

func newDeadlock(string, map[string]string, rest.AuthProviderConfigPersister) (rest.AuthProvider, error) {
	return deadlock{}, nil
}

func (deadlock) Login() error { return nil }

func (deadlock) WrapTransport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.Path, "/clusters/") && strings.HasSuffix(r.URL.Path, "/status") {
			select {}
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A hub whose reconciler deadlocks fails /healthz, names the controller at /healthz/heartbeats and in the log, loses its
// lease and exits, at the log levels info and debug. A standby in another process takes over and does the work.
func TestRun_DeadlockedHub(t *testing.T) {
	t.Parallel()
	clusters := createAll(t, fleettest.New(t, fleet.Options{}), "hub-info", "hub-debug")
	for i, level := range []string{"info", "debug"} {
		hub := clusters[i]
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			kubeconfig, health, direct := install(t, hub), fleettest.FreeAddress(t), clientFor(t, hub)
			args := []string{"run", "--leader-elect", "--metrics-bind-address=0", "--concurrency=1", "--log-level=" + level}
			stuck := startWith(t, []string{asHub + "=" + asDeadlocked}, append(args, "--replica-name=stuck",
				"--kubeconfig="+withDeadlock(t, hub), "--health-probe-bind-address="+health)...)
			soon(t, func() error { return expectLease(t, direct, "stuck", 0) })
			start(t, append(args, "--replica-name=standby", "--kubeconfig="+kubeconfig, "--health-probe-bind-address=0")...)

			secret := registration("one", hub)
			secret.Data["kubeconfig"] = []byte("no kubeconfig")
			must(t, direct.Create(t.Context(), secret))
			soon(t, func() error {
				return errors.Join(expectFailure(t, health, "/healthz?verbose", "[-]heartbeats failed"),
					expectFailure(t, health, "/healthz/heartbeats", "no progress for 30s: controller cluster"))
			})
			soon(t, func() error { return expectLease(t, direct, "standby", 1) })
			if code := stuck.exit(); code != 1 {
				t.Errorf("the deadlocked hub exits with %d, want 1", code)
			}
			for _, want := range []string{"no progress for 30s", "controller cluster", "the hub lost its lease, and cannot start over"} {
				stuck.expect(&stuck.stderr, want)
			}
			waitForCluster(t, hub, "one")
			kubectl(t, kubeconfig, "wait", "--for=condition=CredentialsValid=False", "--timeout=120s", "clusters.clusterfx.dev/one")
			must(t, expectLease(t, direct, "standby", 1))
		})
	}
}

// withDeadlock writes a kubeconfig that deadlocks a hub of the kind asDeadlocked.
func withDeadlock(t *testing.T, c *fleet.Cluster) string {
	t.Helper()
	config, err := clientcmd.Load(c.Kubeconfig())
	must(t, err)
	for _, user := range config.AuthInfos {
		user.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: deadlocks}
	}
	text, err := clientcmd.Write(*config)
	must(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, text, 0o600))
	return path
}

// expectFailure returns an error unless a page fails with this text.
func expectFailure(t *testing.T, address, path, want string) error {
	t.Helper()
	_, err := page(t, address, path)
	if err == nil || !strings.Contains(err.Error(), want) {
		return fmt.Errorf("%s returns %v, want %q", path, err, want) //nolint:errorlint // It may be nil.
	}
	return nil
}

// expectLease returns an error unless the replica holds the lease of the hub, after this number of changes of its
// holder.
func expectLease(t *testing.T, direct client.Client, replica string, transitions int32) error {
	t.Helper()
	var lease coordinationv1.Lease
	key := client.ObjectKey{Namespace: hubv1.DefaultNamespace, Name: "clusterfx-hub"}
	if err := direct.Get(t.Context(), key, &lease); err != nil {
		return err
	}
	holder, changes := "", int32(0)
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	if lease.Spec.LeaseTransitions != nil {
		changes = *lease.Spec.LeaseTransitions
	}
	if !strings.HasPrefix(holder, replica+"_") || changes != transitions {
		return fmt.Errorf("the lease is held by %q after %d changes of its holder", holder, changes)
	}
	return nil
}

// soon waits for a condition that takes a minute, or several minutes on a busy machine: time in which a hub gets no CPU
// does not count for its heartbeats.
func soon(t *testing.T, check func() error) {
	t.Helper()
	gomega.NewWithT(t).Eventually(check).WithTimeout(5 * time.Minute).WithPolling(100 * time.Millisecond).Should(gomega.Succeed())
}

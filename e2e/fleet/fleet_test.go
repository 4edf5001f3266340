// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestFleet_Create(t *testing.T) {
	t.Parallel()

	t.Run("clusters of one etcd serve the pinned version and know nothing of each other", func(t *testing.T) {
		t.Parallel()
		both := fleettest.Clusters(t, "a", "b")
		a, b := both[0], both[1]
		for _, c := range both {
			version, err := clientFor(t, c.Config()).Discovery().ServerVersion()
			testkit.Must(t, err)
			if os.Getenv("KUBEBUILDER_ASSETS") == "" && version.GitVersion != fleet.KubernetesVersion {
				t.Errorf("cluster %s runs %s, want %s", c.Name(), version.GitVersion, fleet.KubernetesVersion)
			}
		}
		write(t, clientFor(t, a.Config()), "only-in-a")
		testkit.Fails(t, read(t.Context(), clientFor(t, b.Config()), "only-in-a"), "cluster b has an object of cluster a")
		stranger := a.Config()
		stranger.Host = b.Server()
		testkit.Fails(t, list(t.Context(), clientFor(t, stranger)), "the administrator of cluster a has access to cluster b")
	})

	t.Run("names that cannot be used are refused", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"", "A", "a/b", "-a", "_etcd", strings.Repeat("x", 41)} {
			testkit.Fails(t, testkit.Err(fleettest.Shared(t).Create(t.Context(), name)), "Create accepts the name", name)
		}
	})

	t.Run("an API server that cannot start shows the end of its log", func(t *testing.T) {
		t.Parallel()
		_, err := fleettest.Shared(t).Create(t.Context(), "broken", "--no-such-flag=1")
		testkit.ErrorHas(t, err, "unknown flag: --no-such-flag")
	})
}

func TestFleet_Close(t *testing.T) {
	t.Parallel()
	var f *fleet.Fleet
	var err error
	var started sync.WaitGroup
	started.Go(func() {
		runtime.LockOSThread() // The thread ends with this goroutine; nothing may depend on it.
		f, err = fleet.New(t.Context(), fleet.Options{Log: t.Output()})
	})
	started.Wait()
	testkit.Must(t, err)
	starting := make(chan error)
	go func() {
		_, err := f.Create(t.Context(), "late")
		starting <- err
	}()
	for !isDir(filepath.Join(f.Dir(), "late")) {
		runtime.Gosched()
	}
	testkit.Fails(t, testkit.Err(f.Create(t.Context(), "late")), "Create accepts a name again")
	pids := f.Processes()

	begin := time.Now()
	testkit.Must(t, f.Close(t.Context()))
	t.Logf("closed after %s", time.Since(begin).Round(time.Millisecond))
	testkit.Fails(t, <-starting, "a cluster starts in a closed fleet")
	for name, pid := range pids {
		if alive(pid) {
			t.Errorf("%s still runs", name)
		}
	}
	if isDir(f.Dir()) {
		t.Errorf("%s still exists", f.Dir())
	}
	testkit.NoError(t, f.Close(t.Context()), "close again")
}

func TestNew_Dir(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "fleet")
	f := fleettest.New(t, fleet.Options{Dir: dir})
	testkit.Fails(t, testkit.Err(fleet.New(t.Context(), fleet.Options{Dir: dir})), "two fleets share a folder")
	testkit.Must(t, f.Close(t.Context()))
	if isDir(dir) {
		t.Errorf("%s still exists", dir)
	}

	precious := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(precious, "file"), nil, 0o600))
	testkit.Fails(t, testkit.Err(fleet.New(t.Context(), fleet.Options{Dir: precious})), "a fleet takes a folder with a file")
	left, err := os.ReadDir(precious)
	if err != nil || len(left) != 1 {
		t.Errorf("the folder contains %v (%v), want its file", left, err)
	}
}

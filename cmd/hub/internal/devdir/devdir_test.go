// SPDX-License-Identifier: Apache-2.0

//go:build unix

package devdir_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/devdir"
)

// The kubeconfig is found while a process holds the folder, and never if somebody else has made it.
func TestKubeconfig(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	expect := func(what, want string) {
		t.Helper()
		if got := devdir.Kubeconfig(); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	expect("no folder", "")
	path := filepath.Join(dir, devdir.Default, devdir.KubeconfigFile)
	lock, err := os.Create(makeFolder(t, filepath.Dir(path)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expect("a dev that was killed", "")
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	expect("a dev that runs", path)
	if os.Getuid() != 0 {
		return // Only root gives files away.
	}
	for _, owned := range []string{path, filepath.Dir(path)} {
		if err := os.Chown(owned, 12345, -1); err != nil {
			t.Fatal(err)
		}
		expect(owned+" of another user", "")
		if err := os.Chown(owned, 0, -1); err != nil {
			t.Fatal(err)
		}
	}
	expect("given back", path)
}

// makeFolder makes the folder of a dev and returns the path of its lock.
func makeFolder(t *testing.T, dir string) string {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, devdir.LockFile)
}

// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestFolder_OneHolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	f := mustClaim(t, dir)
	testkit.ErrorHas(t, testkit.Err(claim(dir)), "stop it with dev down, or choose another folder", "the second claim")
	process, err := holder(dir)
	if err != nil || process == nil || process.Pid != os.Getpid() {
		t.Errorf("the holder is %+v, %v", process, err)
	}
	must(t, f.release(false))
	if held(dir) {
		t.Error("the folder is held after its release")
	}
	if process, err := holder(dir); process != nil || err != nil {
		t.Errorf("the holder of a released folder is %+v, %v", process, err)
	}
}

func TestFolder_Ready(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := mustClaim(t, dir)
	defer func() { _ = f.release(false) }()
	if readSignature(dir).ready {
		t.Error("a folder is ready as soon as it is claimed")
	}
	must(t, f.sign(true))
	if !readSignature(dir).ready {
		t.Error("the folder is not ready after sign(true)")
	}
}

func TestFolder_RemovesItsFilesOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"mine.txt", kubeconfigFile, logFile, filepath.Join(fleetDir, "hub", "data")} {
		write(t, filepath.Join(dir, name))
	}
	f := mustClaim(t, dir) // The leftovers of a dev that was killed.
	expectFiles(t, dir, ignoreFile, lockFile, logFile, "mine.txt")
	must(t, f.release(true))
	expectFiles(t, dir, logFile, "mine.txt")
	must(t, mustClaim(t, dir).release(false))
	expectFiles(t, dir, "mine.txt")
}

func TestDown_RemovesLeftovers(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	write(t, filepath.Join(dir, lockFile))
	write(t, filepath.Join(dir, kubeconfigFile))
	var out strings.Builder
	must(t, down(t.Context(), dir, output.NewTerminal(nil, &out, &out)))
	if got, want := out.String(), "ok nothing runs in "+dir+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder still exists: %v", err)
	}
}

// dev follows no links in the data folder, or in its place, which may come with a checkout.
func TestClaim_Links(t *testing.T) {
	t.Parallel()
	theirs := filepath.Join(t.TempDir(), "theirs")
	write(t, theirs)
	link := func(to, path string) string {
		t.Helper()
		must(t, os.Symlink(to, path))
		return path
	}
	linked := t.TempDir()
	link(theirs, filepath.Join(linked, lockFile))
	for _, dir := range []string{linked, link(t.TempDir(), filepath.Join(t.TempDir(), "data"))} {
		testkit.ErrorHas(t, testkit.Err(claim(dir)), advice, "claim follows a link")
	}
	for _, name := range []string{logFile, kubeconfigFile} {
		d := demo{folder: mustClaim(t, t.TempDir())}
		link(theirs, d.folder.path(name))
		if _, err := d.openLog(); name == logFile && err == nil {
			t.Error("the log is written through a link")
		}
		if err := d.folder.writeNew(kubeconfigFile, nil); name == kubeconfigFile && err == nil {
			t.Error("the kubeconfig is written through a link")
		}
		if err := d.folder.release(false); err != nil {
			t.Error(err)
		}
	}
	if text, err := os.ReadFile(theirs); err != nil || string(text) != "x" {
		t.Errorf("the target of the links has %q, %v", text, err)
	}
}

// A lock is held only while a process holds it: neither a file that cannot be locked, nor a link to a held lock, is held.
func TestHeld(t *testing.T) {
	t.Parallel()
	f := mustClaim(t, t.TempDir())
	for what, makeLock := range map[string]func(path string) error{
		"a link to a lock that is held":   func(path string) error { return os.Symlink(f.path(lockFile), path) },
		"a device, whose lock is refused": func(path string) error { return os.Symlink("/dev/tty", path) },
		"a pipe":                          func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a folder":                        func(path string) error { return os.Mkdir(path, 0o700) },
		"a file without a holder":         func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		dir := t.TempDir()
		must(t, makeLock(filepath.Join(dir, lockFile)))
		if held(dir) {
			t.Errorf("%s is reported as held", what)
		}
	}
	if !held(f.dir) {
		t.Error("a held lock is not reported as held")
	}
	must(t, f.release(false))
}

// down does not change a folder that dev has not used.
func TestDown_LeavesOthersAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, kubeconfigFile))
	must(t, down(t.Context(), dir, output.NewTerminal(nil, io.Discard, io.Discard)))
	expectFiles(t, dir, kubeconfigFile)
}

func mustClaim(t *testing.T, dir string) *folder {
	t.Helper()
	f, err := claim(dir)
	must(t, err)
	return f
}

func write(t *testing.T, path string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte("x"), 0o600))
}

func expectFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the folder holds %v, want %v", got, want)
	}
}

var must = testkit.Must

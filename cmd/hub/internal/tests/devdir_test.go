// SPDX-License-Identifier: Apache-2.0

//go:build unix

package tests

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
)

// place is the current folder of a test, and the folder of records of its user.
type place struct {
	*testing.T
	data, records string
}

func newPlace(t *testing.T) place {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	cache, err := os.UserCacheDir()
	must(t, err)
	dir := t.TempDir()
	t.Chdir(dir)
	return place{t, filepath.Join(dir, access.DevDir), filepath.Join(cache, "clusterfx", "dev")}
}

func (p place) must(err error) {
	p.Helper()
	must(p, err)
}

// expect fails the test unless Find returns a dev with this kubeconfig, or no dev if it is empty.
func (p place) expect(what, want string) {
	p.Helper()
	found := access.FindDev()
	switch {
	case want == "" && found != nil:
		p.Errorf("%s: found %s, want no dev", what, found.Kubeconfig)
	case want != "" && (found == nil || string(found.Kubeconfig) != want || found.Path != filepath.Join(p.data, "kubeconfig")):
		p.Errorf("%s: %+v, want %q", what, found, want)
	}
}

// record returns the folder of the only record.
func (p place) record() string {
	p.Helper()
	all, err := filepath.Glob(filepath.Join(p.records, "*"))
	if err != nil || len(all) != 1 {
		p.Fatalf("%v, %v", all, err)
	}
	return all[0]
}

func (p place) flocked(path string) {
	p.Helper()
	file, err := os.Create(path)
	p.must(err)
	p.Cleanup(func() { _ = file.Close() })
	p.must(syscall.Flock(int(file.Fd()), syscall.LOCK_EX))
}

// A dev is found while it runs, by its record in the user's own folder.
func TestFind(t *testing.T) {
	p := newPlace(t)
	p.expect("no folder", "")
	lock, err := access.PublishDev(access.DevDir, []byte("one"))
	p.must(err)
	p.expect("a dev that runs", "one")
	p.must(os.Mkdir(p.data, 0o755))
	p.must(os.WriteFile(filepath.Join(p.data, "kubeconfig"), []byte("another"), 0o600))
	p.expect("a dev whose data folder has been changed", "one")
	p.must(lock.Close())
	p.expect("a dev that was killed", "")
	lock, err = access.PublishDev(p.data, []byte("two"))
	p.must(err)
	defer func() { _ = lock.Close() }()
	p.expect("the next dev", "two")
	p.must(access.RemoveDev(p.data))
	p.expect("a dev that removed its record", "")
}

// A folder that looks like the folder of a running dev is ignored, because it may come with a checkout.
func TestFind_CheckedOut(t *testing.T) {
	p := newPlace(t)
	p.must(os.Mkdir(p.data, 0o700))
	p.must(os.WriteFile(filepath.Join(p.data, "kubeconfig"), []byte("another"), 0o600))
	p.must(os.Chmod(filepath.Dir(p.data), 0o700))
	p.flocked(filepath.Join(p.data, "dev.lock"))
	p.expect("a folder that looks like it", "")
}

// A record with wrong permissions, another owner or links is not read.
func TestFind_Record(t *testing.T) {
	p := newPlace(t)
	lock, err := access.PublishDev(access.DevDir, []byte("one"))
	p.must(err)
	defer func() { _ = lock.Close() }()
	record := p.record()
	for _, path := range []string{record, p.records} {
		p.must(os.Chmod(path, 0o755))
		p.expect(path+" that others may read", "")
		p.must(os.Chmod(path, 0o700))
	}
	for _, path := range []string{filepath.Join(record, "kubeconfig"), filepath.Join(record, "dev.lock"), record, p.records} {
		aside := filepath.Join(t.TempDir(), "aside")
		p.must(os.Rename(path, aside))
		p.must(os.Symlink(aside, path))
		p.expect("a link in the place of "+path, "")
		p.must(os.Remove(path))
		p.must(os.Rename(aside, path))
		if os.Getuid() != 0 {
			continue // Only root can change the owner of a file.
		}
		p.must(os.Chown(path, 12345, -1))
		p.expect(path+" of another user", "")
		p.must(os.Chown(path, 0, -1))
	}
	p.expect("everything as it was", "one")
}

// A lock is held only while a process holds it: neither a file that cannot be locked, nor a link to a held lock, is held.
func TestHeld(t *testing.T) {
	p := newPlace(t)
	held := filepath.Join(t.TempDir(), "held")
	p.flocked(held)
	for what, makeLock := range map[string]func(path string) error{
		"a link to a lock that is held":   func(path string) error { return os.Symlink(held, path) },
		"a device, whose lock is refused": func(path string) error { return os.Symlink("/dev/tty", path) },
		"a pipe":                          func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a folder":                        func(path string) error { return os.Mkdir(path, 0o700) },
		"a file without a holder":         func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		dir := t.TempDir()
		p.must(makeLock(filepath.Join(dir, "dev.lock")))
		if access.DevHeld(dir) {
			t.Errorf("%s is reported as held", what)
		}
	}
	dir := t.TempDir()
	p.flocked(filepath.Join(dir, "dev.lock"))
	if !access.DevHeld(dir) {
		t.Error("a held lock is not reported as held")
	}
}

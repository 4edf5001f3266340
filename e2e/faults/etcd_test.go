// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// etcd is a process with the data of one cluster. It can be frozen, backed up and restored.
type etcd struct {
	dir  string
	stop func() // kills the process and waits for it
	cmd  *exec.Cmd
}

// etcdSocket is the file name of the Unix socket on which etcd listens, in its folder.
const etcdSocket = "etcd:0"

func startEtcd(t *testing.T) *etcd {
	t.Helper()
	e := &etcd{dir: t.TempDir()}
	e.start(t)
	t.Cleanup(func() { e.stop() })
	return e
}

func (e *etcd) data() string { return filepath.Join(e.dir, "data") }

func (e *etcd) start(t *testing.T) {
	t.Helper()
	path, err := fleet.Binary("etcd")
	must(t, err)
	cmd := exec.Command(path,
		"--data-dir=data", "--listen-client-urls=unix://"+etcdSocket, "--advertise-client-urls=unix://"+etcdSocket,
		"--listen-peer-urls=unix://peer:0", "--initial-advertise-peer-urls=unix://peer:0",
		"--initial-cluster=default=unix://peer:0", "--unsafe-no-fsync", "--log-level=error")
	cmd.Dir = e.dir
	ended, err := fleet.StartTied(cmd, "")
	must(t, err)
	e.cmd = cmd
	e.stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		ended()
	}
	eventually(t, func() error {
		_, err := os.Stat(filepath.Join(e.dir, etcdSocket))
		return err
	})
}

// fleet returns a fleet whose clusters keep their data in this etcd. A fleet has no option for another etcd, so its socket
// is replaced by a link.
func (e *etcd) fleet(t *testing.T, o fleet.Options) *fleet.Fleet {
	t.Helper()
	f := fleettest.New(t, o)
	place := filepath.Join(f.Dir(), "_etcd", etcdSocket)
	must(t, os.Remove(place))
	must(t, os.Symlink(filepath.Join(e.dir, etcdSocket), place))
	return f
}

// signal sends a signal to the process.
func (e *etcd) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := e.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
}

// backUp copies the current data.
func (e *etcd) backUp(t *testing.T) (backup string) {
	t.Helper()
	backup = filepath.Join(t.TempDir(), "backup")
	e.signal(t, syscall.SIGSTOP)
	defer e.signal(t, syscall.SIGCONT)
	must(t, os.CopyFS(backup, os.DirFS(e.data())))
	return backup
}

func (e *etcd) restore(t *testing.T, backup string) {
	t.Helper()
	e.stop()
	must(t, os.RemoveAll(e.data()))
	must(t, os.CopyFS(e.data(), os.DirFS(backup)))
	must(t, os.RemoveAll(filepath.Join(e.dir, etcdSocket)))
	e.start(t)
}

// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// tie runs "$@" so that it dies with the writer of the pipe at descriptor 3. A shell waits on the pipe: a line means that the
// program ended, the end of the file that the writer died. Its $$ is the process that exec turns into the program, which never runs
// without its guard.
const tie = `
(read -r line && exit; kill -KILL $$; [ -z "$0" ] || { sleep 1; rm -rf "$0"; }) <&3 >/dev/null 2>&1 &
exec "$@" 3<&-`

// StartTied starts a command that dies with this process, even if that is killed; then the folder remove is deleted, unless it is
// empty. The command is in a session of its own, which a Ctrl-C in this terminal does not reach. The caller must call ended when the
// command has ended.
func StartTied(cmd *exec.Cmd, remove string) (ended func(), err error) {
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", tie, remove}, cmd.Args...)
	return startPiped(cmd)
}

// startPiped starts a command in a session of its own, with a pipe at descriptor 3, at whose end it notices the death of this process.
func startPiped(cmd *exec.Cmd) (ended func(), err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	cmd.ExtraFiles = []*os.File{r}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return func() {
		_, _ = w.WriteString("ended\n") // The guard may be gone already.
		_ = w.Close()
	}, nil
}

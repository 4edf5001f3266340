// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/logsink"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// While a goroutine reads the credential, from a file that gives none, the others do not wait for it.
func TestHub_WhileItIsRead(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	synctest.Test(t, func(t *testing.T) {
		const token = "tOk9zQ7xWv4kJ2pL8mN3rT6y"
		must(os.WriteFile(file, []byte(token), 0o600))
		secrets := &kubeconfig.Redactor{}
		logsink.FollowHub(&rest.Config{BearerTokenFile: file}, secrets)
		<-time.After(30 * time.Second)
		must(errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)))
		read := make(chan struct{})
		go func() {
			defer close(read)
			secrets.Redact(token)
		}()
		pipe, err := os.OpenFile(file, os.O_WRONLY, 0) // returns when the goroutine has opened it
		must(err)
		testkit.Equal(t, secrets.Redact(token), "[redacted]", "the known credential")
		must(pipe.Close())
		<-read
	})
}

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
		must(os.WriteFile(file, []byte("tOk9zQ7xWv4kJ2pL8mN3rT6y"), 0o600))
		h := logsink.NewHubCredential(&rest.Config{BearerTokenFile: file}, &kubeconfig.Redactor{})
		first := h.Credential()
		<-time.After(30 * time.Second)
		must(errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)))
		read := make(chan struct{})
		go func() {
			defer close(read)
			h.Credential()
		}()
		pipe, err := os.OpenFile(file, os.O_WRONLY, 0) // returns when the goroutine has opened it
		must(err)
		if got := h.Credential(); got != first {
			t.Errorf("got %v, want the credential that is known", got)
		}
		must(pipe.Close())
		<-read
	})
}

// The credential in the hub's file is redacted, with a delay of at most five seconds, together with the credentials of the caller.
func TestHub_Redact(t *testing.T) {
	t.Parallel()
	tokens := []string{"tOk9zQ7xWv4kJ2pL8mN3rT6y", "qW8rT5yU2iO9pA4sD7fG1hJ3"}
	remote := kubeconfig.CredentialOf(&rest.Config{BearerToken: "zX6cV1bN8mL4kJ7hG2fD5sA9"})
	file := filepath.Join(t.TempDir(), "token")
	write := func(t *testing.T, token string) {
		t.Helper()
		must(t, os.WriteFile(file, []byte(token), 0o600))
	}
	synctest.Test(t, func(t *testing.T) {
		h := logsink.NewHubCredential(&rest.Config{BearerTokenFile: file}, &kubeconfig.Redactor{})
		expect := func(want string) {
			t.Helper()
			testkit.Equal(t, h.Redact(tokens[0]+" "+tokens[1]+" zX6cV1bN8mL4kJ7hG2fD5sA9", remote), want, "Redact")
		}
		write(t, tokens[0])
		expect("[redacted] " + tokens[1] + " [redacted]")
		write(t, tokens[1])
		<-time.After(5 * time.Second)
		expect("[redacted] " + tokens[1] + " [redacted]")
		<-time.After(1)
		expect(tokens[0] + " [redacted] [redacted]")
	})
}

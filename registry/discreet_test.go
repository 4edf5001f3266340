// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// A logger of an app replaces credentials wherever a line has room for text, at every level.
func TestRedacting(t *testing.T) {
	t.Parallel()
	const canary = "tOk9zQ7xWv4kJ2pL8mN3rT6y"
	c := kubeconfig.CredentialOf(&rest.Config{BearerToken: canary})
	var lines strings.Builder
	inner := funcr.New(func(prefix, args string) { lines.WriteString(prefix + args + "\n") }, funcr.Options{Verbosity: 1})
	log := redacting(inner, func(text string) string { return kubeconfig.Redact(text, c) })
	log.Info("a "+canary, "string", canary, "error", errors.New(canary), "bytes", []byte(canary), "strings", []string{canary}, "number", 7)
	log.V(1).Info("debugging", "string", canary)
	log.V(2).Info("not logged")
	log.Error(errors.New("b "+canary), "c "+canary, "string", canary)
	log.WithName("named").WithValues("with", canary).WithCallDepth(1).Info("d")
	text := lines.String()
	if strings.Contains(text, canary) || strings.Count(text, "[redacted]") != 10 || !strings.Contains(text, `"number"=7`) || strings.Count(text, "\n") != 4 {
		t.Errorf("the log has\n%s", text)
	}
	plain := errors.New("plain")
	if got := (&redactingSink{redact: func(text string) string { return text }}).error(plain); got != plain { //nolint:errorlint // the same one
		t.Errorf("an error without a credential becomes %v", got)
	}
}

// A registry without remotes knows the credential of the hub, also after it is rotated in its file, and for some time the one
// before.
func TestRedacting_Hub(t *testing.T) {
	t.Parallel()
	tokens := []string{"tOk9zQ7xWv4kJ2pL8mN3rT6y", "qW8rT5yU2iO9pA4sD7fG1hJ3", "zX6cV1bN8mL4kJ7hG2fD5sA9"}
	file := filepath.Join(t.TempDir(), "token")
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		var log logr.Logger
		for i, want := range []string{
			"[redacted] " + tokens[1] + " " + tokens[2],
			"[redacted] [redacted] " + tokens[2],
			tokens[0] + " [redacted] [redacted]",
		} {
			if err := os.WriteFile(file, []byte(tokens[i]), 0o600); err != nil {
				t.Fatal(err)
			}
			if <-time.After(hubCredentialAge + 1); i == 0 {
				r, err := New(Options{
					Hub: &rest.Config{BearerTokenFile: file}, HubMapper: meta.NewDefaultRESTMapper(nil), Scheme: runtime.NewScheme(),
					Log: funcr.New(func(_, args string) { lines.WriteString(args) }, funcr.Options{}),
				})
				if err != nil {
					t.Fatal(err)
				}
				log = r.log
			}
			lines.Reset()
			log.Info(strings.Join(tokens, " "))
			if !strings.Contains(lines.String(), want) {
				t.Errorf("with token %d: %s, want %s", i, lines.String(), want)
			}
		}
	})
}

// The Quote of an app replaces the credentials of its remote.
func TestQuoter(t *testing.T) {
	t.Parallel()
	const canary = "tOk9zQ7xWv4kJ2pL8mN3rT6y"
	c := kubeconfig.CredentialOf(&rest.Config{BearerToken: canary})
	quote := quoter(func(text string) string { return kubeconfig.Redact(text, c) })
	if got := quote("one\n" + canary); got != "one [redacted]" {
		t.Errorf("Quote returns %q", got)
	}
}

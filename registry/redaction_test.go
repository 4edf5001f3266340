// SPDX-License-Identifier: Apache-2.0

package registry

import (
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

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A registry without remotes redacts the credential of the hub, also after a rotation of its file, and for some time
// the previous credential.
func TestRedactingLogger_Hub(t *testing.T) {
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
			testkit.Must(t, os.WriteFile(file, []byte(tokens[i]), 0o600))
			if <-time.After(6 * time.Second); i == 0 {
				r, err := New(Options{
					Hub: &rest.Config{BearerTokenFile: file}, HubMapper: meta.NewDefaultRESTMapper(nil), Scheme: runtime.NewScheme(),
					Log: funcr.New(func(_, args string) { lines.WriteString(args) }, funcr.Options{}),
				})
				testkit.Must(t, err)
				log = r.log
			}
			lines.Reset()
			log.Info(strings.Join(tokens, " "))
			if !strings.Contains(lines.String(), want) {
				t.Errorf("with token %d: got %s, want %s", i, lines.String(), want)
			}
		}
	})
}

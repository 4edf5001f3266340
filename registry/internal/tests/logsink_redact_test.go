// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/registry/internal/logsink"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// A logger of an app replaces credentials in every part of a line that has text, at every level.
func TestRedact(t *testing.T) {
	t.Parallel()
	const canary = "tOk9zQ7xWv4kJ2pL8mN3rT6y"
	secrets := &kubeconfig.Redactor{}
	secrets.Set("edge-1", kubeconfig.CredentialOf(&rest.Config{BearerToken: canary}))
	var lines strings.Builder
	inner := funcr.New(func(prefix, args string) { lines.WriteString(prefix + args + "\n") }, funcr.Options{Verbosity: 1})
	log := logsink.RedactSecrets(inner, secrets)
	log.Info("a "+canary, "string", canary, "error", errors.New(canary), "bytes", []byte(canary), "strings", []string{canary}, "number", 7)
	log.V(1).Info("debugging", "string", canary)
	log.V(2).Info("not logged")
	log.Error(errors.New("b "+canary), "c "+canary, "string", canary)
	log.WithName("named").WithValues("with", canary).WithCallDepth(1).Info("d")
	text := lines.String()
	if strings.Contains(text, canary) || strings.Count(text, "[redacted]") != 10 || !strings.Contains(text, `"number"=7`) || strings.Count(text, "\n") != 4 {
		t.Errorf("got log\n%s", text)
	}
}

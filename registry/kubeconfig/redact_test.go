// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// holder is a struct of another package. fmt cannot call the methods of its unexported fields.
type holder struct {
	connection kubeconfig.Connection
	credential kubeconfig.Credential
	pointer    *kubeconfig.Credential
	transport  *kubeconfig.Transport
}

func TestNothingPrintsASecret(t *testing.T) {
	t.Parallel()
	p := shared(t)
	for name, text := range map[string]string{
		"token": baseConfig(t), "client certificate": withCertificate(t, p.client),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection := parse(t, text)
			transport, err := kubeconfig.NewTransport(connection, kubeconfig.Policy{})
			must(t, err)
			defer transport.Close()
			secrets := []string{canaryToken, b64([]byte(canaryToken)), keyText(p.client.key), inNumbers(canaryToken), inNumbers(keyText(p.client.key))}
			c := connection.Credential
			for _, value := range []any{
				connection, &connection, c, &c,
				[]kubeconfig.Credential{c},
				map[string]kubeconfig.Credential{"x": c},
				transport, kubeconfig.RESTConfig(connection.Endpoint, transport),
				holder{connection, c, &c, transport},
				&holder{connection, c, &c, transport},
			} {
				for form, printed := range printedForms(value) {
					if part := leaked(printed, secrets...); part != "" {
						t.Errorf("%T in the form %s has %q of the secret", value, form, part)
					}
				}
			}
			testkit.Equal(t, fmt.Sprint(c), string(c.Type())+" (redacted)", "text")
		})
	}
	if got := fmt.Sprint(kubeconfig.Credential{}); got != "no credential" {
		t.Errorf("got %q for the zero value, want no credential", got)
	}
}

// inNumbers returns a text as fmt prints its bytes.
func inNumbers(text string) string {
	return fmt.Sprint(any([]byte(text)))
}

// printedForms returns a value in every form in which it is likely to reach a log.
func printedForms(value any) map[string]string {
	forms := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%b", "%t", "%e", "%c", "%U", "%p"} {
		forms[verb] = fmt.Sprintf(verb, value)
	}
	asJSON, _ := json.Marshal(value)
	forms["json"] = string(asJSON)
	asYAML, _ := yaml.Marshal(value)
	forms["yaml"] = string(asYAML)
	var text, structured bytes.Buffer
	slog.New(slog.NewTextHandler(&text, nil)).Info("x", "value", value)
	slog.New(slog.NewJSONHandler(&structured, nil)).Info("x", "value", value)
	forms["slog text"], forms["slog json"] = text.String(), structured.String()
	return forms
}

func TestError_textIsBounded(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("ä\n", 400) + canaryToken
	_, err := kubeconfig.Parse(map[string][]byte{key: []byte("x: 1")}, kubeconfig.Options{Key: key}, kubeconfig.Policy{})
	if err == nil {
		t.Fatal("no error")
	}
	text := err.Error()
	if len(text) > 512 || strings.ContainsAny(text, "\n�") || !strings.HasSuffix(text, "...") {
		t.Errorf("got %d bytes, want 512 at most, printable and cut: %q", len(text), text)
	}
}

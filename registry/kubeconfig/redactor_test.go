// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// A Redactor replaces the same text as Redact, for each of many owners and wherever the part begins.
func TestRedactor(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // It has to be the same each time.
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	text := func(size int) string {
		var all strings.Builder
		for range size {
			all.WriteByte(alphabet[random.IntN(len(alphabet))])
		}
		return all.String()
	}
	var r kubeconfig.Redactor
	tokens := map[string]string{"short": text(9)}
	for i := range 50 {
		tokens[fmt.Sprint(i)] = text(100 + random.IntN(100))
	}
	for owner, token := range tokens {
		r.Set(owner, kubeconfig.CredentialOf(&rest.Config{BearerToken: token}))
	}
	for owner, token := range tokens {
		one := kubeconfig.CredentialOf(&rest.Config{BearerToken: token})
		for range 20 {
			from := random.IntN(len(token))
			line := "some words " + strings.ToUpper(token[from:from+random.IntN(len(token)-from+1)]) + " and others"
			if want := kubeconfig.Redact(line, one); r.Redact(line) != want {
				t.Fatalf("%s: %q: got %q, want %q", owner, line, r.Redact(line), want)
			}
		}
	}
	r.Set("1", kubeconfig.CredentialOf(&rest.Config{BearerToken: canaryToken}))
	if r.Redact(tokens["1"]) != "[redacted]" || r.Redact(canaryToken) != "[redacted]" {
		t.Error("the current credential of an owner is not replaced, or its previous credential, which may still be valid")
	}
	r.Set("1", kubeconfig.CredentialOf(&rest.Config{BearerToken: canaryToken}))
	if r.Redact(tokens["1"]) != "[redacted]" {
		t.Error("the previous credential of an owner is not replaced after a call that changes nothing")
	}
	r.Set("1", kubeconfig.CredentialOf(&rest.Config{BearerToken: text(100)}))
	if end := tokens["1"][30:]; r.Redact(end) != end || r.Redact(canaryToken) != "[redacted]" {
		t.Error("an owner's credential of two changes ago is still replaced, or its previous credential is not")
	}
	for owner := range tokens {
		r.Set(owner)
	}
	if r.Redact(canaryToken) != canaryToken || r.Redact(tokens["short"]) != tokens["short"] {
		t.Error("a credential without an owner is replaced")
	}
}

// A Redactor keeps text that many different credentials share, which is public, and replaces all other text of each credential.
func TestRedactor_Shared(t *testing.T) {
	t.Parallel()
	var r kubeconfig.Redactor
	const owners = 100
	for i := range owners {
		for name, token := range map[string]string{
			"token": token(i), "short": fmt.Sprintf("short-%03d", i), "alike": fmt.Sprintf("fleet-token-%05d", i), "same": canaryToken,
		} {
			r.Set(fmt.Sprint(name, i), kubeconfig.CredentialOf(&rest.Config{BearerToken: token}))
		}
	}
	_, signature, _ := strings.Cut(token(7), ".")
	for text, want := range map[string]string{
		token(7):            "[redacted]",
		signature[:20]:      "[redacted]",
		"short-042":         "[redacted]",
		"fleet-token-00042": "[redacted]",
		canaryToken[3:20]:   "[redacted]",
		tokenHeader:         tokenHeader,
	} {
		if got := r.Redact("It is " + text + " here"); got != "It is "+want+" here" {
			t.Errorf("with %s: got %q", text, got)
		}
	}
	for i := 1; i < owners; i++ {
		r.Set(fmt.Sprint("token", i))
	}
	if got := r.Redact(tokenHeader); got != "[redacted]" {
		t.Errorf("text that one owner's credential has: got %q, want it replaced", got)
	}
}

// tokenHeader is the beginning of each JWT in these tests.
const tokenHeader = "eyJhbGciOiJSUzI1NiIs."

// token returns a JWT that shares only its header with the other JWTs.
func token(i int) string {
	body := make([]byte, 600)
	_, _ = rand.NewChaCha8(sha256.Sum256([]byte(fmt.Sprint(i)))).Read(body)
	return tokenHeader + base64.RawURLEncoding.EncodeToString(body)
}

// Redact reads a text only up to a limit: the rest is cut off, also by a Redactor without credentials.
func TestRedact_Bounded(t *testing.T) {
	t.Parallel()
	one := kubeconfig.CredentialOf(&rest.Config{BearerToken: canaryToken})
	long := strings.Repeat("ä", 1<<20) + canaryToken
	for name, got := range map[string]string{"Redact": kubeconfig.Redact(long, one), "Redactor": new(kubeconfig.Redactor).Redact(long)} {
		if len(got) > 64<<10+3 || !strings.HasSuffix(got, "ä...") {
			t.Errorf("%s: got %d bytes that end with %q, want 64 KiB and an ellipsis", name, len(got), got[len(got)-10:])
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// A Redactor replaces what Redact replaces, whichever of many owners it belongs to and wherever the part begins.
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
				t.Fatalf("%s: %q becomes %q, want %q", owner, line, r.Redact(line), want)
			}
		}
	}
	r.Set("1", kubeconfig.CredentialOf(&rest.Config{BearerToken: canaryToken}))
	if end := tokens["1"][30:]; r.Redact(end) != end {
		t.Error("what an owner had before is still replaced")
	}
	if r.Redact(canaryToken) != "[redacted]" {
		t.Error("what an owner has now is not replaced")
	}
	for owner := range tokens {
		r.Set(owner)
	}
	if r.Redact(canaryToken) != canaryToken || r.Redact(tokens["short"]) != tokens["short"] {
		t.Error("what belongs to nobody is replaced")
	}
}

// Redact reads no more of a text than it needs to: the rest is cut off, in a Redactor also without credentials.
func TestRedact_Bounded(t *testing.T) {
	t.Parallel()
	one := kubeconfig.CredentialOf(&rest.Config{BearerToken: canaryToken})
	long := strings.Repeat("ä", 1<<20) + canaryToken
	for name, got := range map[string]string{"Redact": kubeconfig.Redact(long, one), "Redactor": new(kubeconfig.Redactor).Redact(long)} {
		if len(got) > 64<<10+3 || !strings.HasSuffix(got, "ä...") {
			t.Errorf("%s returns %d bytes that end with %q", name, len(got), got[len(got)-10:])
		}
	}
}

// A line of a log is redacted in a time that does not depend on how many remotes there are.
func BenchmarkRedactor(b *testing.B) {
	for _, remotes := range []int{1, 1000} {
		b.Run(fmt.Sprint(remotes), func(b *testing.B) {
			var r kubeconfig.Redactor
			for i := range remotes {
				token := "eyJhbGciOiJSUzI1NiIs." + strings.Repeat(fmt.Sprintf("%06x", i*7919), 150)
				r.Set(fmt.Sprint(i), kubeconfig.CredentialOf(&rest.Config{BearerToken: token}))
			}
			line := "The state of the cluster remote-17 changed, and the hub could not reach https://remote-17.example.com:6443 for a while"
			for b.Loop() {
				_ = r.Redact(line)
			}
		})
	}
}

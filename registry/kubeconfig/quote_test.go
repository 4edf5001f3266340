// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

func hides(tb testing.TB) func(string) string {
	tb.Helper()
	c := kubeconfig.CredentialOf(&rest.Config{BearerToken: canaryToken})
	return func(text string) string { return kubeconfig.Redact(text, c) }
}

func TestQuote(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("x", kubeconfig.MaxQuote)
	for text, want := range map[string]string{
		"":                                    "",
		"plain, with ümlauts and 漢字":          "plain, with ümlauts and 漢字",
		"two\nlines\r\n\tand\u2028\u0085more": "two lines and more",
		"a bell\a, \x00 and \x1b[31mred":      "a bell, and [31mred",
		"turned \u202Eround\u202C \u2066x\u2069\u200F":                 "turned round x",
		"no\u200Bth\u200Ding\u2060 \uFEFFto\u00AD see\u3164\uFE0F":     "nothing to see",
		"not UTF-8: \xff\xfe.":                                         "not UTF-8: .",
		full:                                                           full,
		full + "x":                                                     full[:kubeconfig.MaxQuote-3] + "...",
		full[:kubeconfig.MaxQuote-4] + "漢字":                            full[:kubeconfig.MaxQuote-4] + "...",
		full[:kubeconfig.MaxQuote-5] + "漢字":                            full[:kubeconfig.MaxQuote-5] + "...",
		"Bearer " + canaryToken + " is bad":                            "Bearer [redacted] is bad",
		strings.ToUpper(canaryToken):                                   "[redacted]",
		"part " + canaryToken[3:15] + ".":                              "part [redacted].",
		"cut " + canaryToken[:20] + "...":                              "cut [redacted]...",
		"broken \u200B" + canaryToken[:8] + "\u200B" + canaryToken[8:]: "broken [redacted]",
		full[:kubeconfig.MaxQuote-10] + canaryToken:                    full[:kubeconfig.MaxQuote-10] + "[redacted]",
		full[:kubeconfig.MaxQuote-8] + canaryToken:                     full[:kubeconfig.MaxQuote-8] + "[reda...",
		"short " + canaryToken[:11]:                                    "short " + canaryToken[:11],
	} {
		if got := kubeconfig.Quote(text, hides(t)); got != want {
			t.Errorf("Quote(%.60q) = %q, want %q", text, got, want)
		}
	}
}

func FuzzQuote(f *testing.F) {
	f.Add("Bearer "+canaryToken, 3)
	f.Add(strings.Repeat("漢", 100)+"\u202E\xff", 0)
	f.Fuzz(func(t *testing.T, text string, at int) {
		if at >= 0 && at < len(text) {
			text = text[:at] + canaryToken + text[at:]
		}
		got := kubeconfig.Quote(text, hides(t))
		hidden := func(r rune) bool { return !unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r) }
		if len(got) > kubeconfig.MaxQuote || !utf8.ValidString(got) || strings.ContainsFunc(got, hidden) {
			t.Errorf("Quote(%q) = %q, want printable text within the limit", text, got)
		}
		for i := range len(canaryToken) - 12 {
			if strings.Contains(got, canaryToken[i:i+12]) {
				t.Errorf("Quote(%q) = %q has a part of the credential", text, got)
			}
		}
	})
}

// Redact replaces every kind of credential, and keeps a word that is too short to be a credential.
func TestRedact(t *testing.T) {
	t.Parallel()
	file := testkit.File(t, "token", canaryToken+"\n")
	client := shared(t).client
	line := strings.Split(string(client.key), "\n")[1]
	for about, c := range map[string]struct {
		config     *rest.Config
		text, want string
	}{
		"token":       {&rest.Config{BearerToken: canaryToken}, "a " + canaryToken, "a [redacted]"},
		"file":        {&rest.Config{BearerTokenFile: file}, "a " + canaryToken, "a [redacted]"},
		"key":         {&rest.Config{TLSClientConfig: rest.TLSClientConfig{KeyData: client.key}}, "a " + line[:20] + "!", "a [redacted]!"},
		"short token": {&rest.Config{BearerToken: "12345678"}, "a 12345678 b 1234567", "a [redacted] b 1234567"},
		"word":        {&rest.Config{BearerToken: "abc"}, "abc", "abc"},
		"nothing":     {nil, "a " + canaryToken, "a " + canaryToken},
	} {
		testkit.Equal(t, kubeconfig.Redact(c.text, kubeconfig.CredentialOf(c.config)), c.want, about)
	}
}

// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

func BenchmarkParse(b *testing.B) {
	for name, text := range map[string]string{
		"token":              baseConfig(b),
		"client certificate": withCertificate(b, shared(b).client),
		"4000 values":        "extensions: [{name: a, extension: [" + strings.Repeat("a,", 4000) + "]}]",
		"64 KiB of token":    withUser(b, "token: "+strings.Repeat("a", 60<<10)),
		"64 KiB of nesting":  strings.Repeat("- ", 32<<10),
	} {
		b.Run(name, func(b *testing.B) {
			data := asKubeconfig(text)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = kubeconfig.Parse(data, kubeconfig.Options{Now: now}, kubeconfig.Policy{})
			}
		})
	}
}

func BenchmarkNewTransport(b *testing.B) {
	connection := parse(b, withCertificate(b, shared(b).client))
	b.ReportAllocs()
	for b.Loop() {
		transport, err := kubeconfig.NewTransport(connection, kubeconfig.Policy{})
		if err != nil {
			b.Fatal(err)
		}
		transport.Close()
	}
}

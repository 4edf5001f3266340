// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"fmt"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/registry"
)

// Quote redacts the credentials of the hub and of the remote.
func TestQuote(t *testing.T) {
	t.Parallel()
	const hubToken, remoteToken = "tOk9zQ7xWv4kJ2pL8mN3rT6y", "pAs5yX6wQv1uZ9hG4fD7sK2j"
	r := newRegistry(t, func(o *registry.Options) {
		o.Hub = rest.CopyConfig(o.Hub)
		o.Hub.BearerToken = hubToken
	})
	config := configFor(t, []byte(`{"clusters":[{"name":"a","cluster":{"server":"https://127.0.0.1:1"}}],`+
		`"users":[{"name":"a","user":{"token":"`+remoteToken+`"}}],`+
		`"contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],"current-context":"a"}`))
	config.Paused = true
	must(t, r.Ensure("quoted", config))
	text := "one\n" + hubToken + " two\u202E " + remoteToken
	const want = "one [redacted] two [redacted]"
	eventually(t, func() error {
		if got := r.Quote("quoted", text); got != want {
			return fmt.Errorf("Quote returns %q, want %q", got, want)
		}
		return nil
	})
}

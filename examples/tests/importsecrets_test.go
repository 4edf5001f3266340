// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/examples/vcluster/importsecrets"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

func imported(p *pair, name, to, value string) *corev1.Secret {
	s := secret(p.downNS, name, value)
	s.Annotations = map[string]string{importsecrets.To: to}
	return s
}

func TestImportSecrets(t *testing.T) {
	t.Parallel()
	p := start(t, func(p *pair) []syncer.Item { return []syncer.Item{importsecrets.Item(p.id)} })
	theirs := secret(p.upNS, "theirs", "tenant")
	create(t, p.up, theirs)
	created := p.upNS + "-made" // a namespace that does not exist
	source := imported(p, "a", created+"/a", "1")
	for _, one := range []*corev1.Secret{
		imported(p, "malformed", p.upNS+"/mal/formed", "1"), imported(p, "empty", "", "1"), secret(p.downNS, "unmarked", "1"),
		imported(p, "taken", p.upNS+"/theirs", "host"), source,
	} {
		create(t, p.down, one)
	}
	made := secret(created, "a", "")
	waitFor(t, p.up, made, has(made, "1"))

	// The host wins, also after a deletion by the tenant.
	patch(t, p.up, made, `{"data":{"k":"Mw=="},"metadata":{"labels":{"x":"y"}}}`)
	waitFor(t, p.up, made, func() error { return expect([]any{string(made.Data["k"]), len(made.Labels)}, []any{"1", 0}) })
	must(t, p.up.Delete(t.Context(), made))
	waitFor(t, p.up, made, has(made, "1"))
	patch(t, p.down, source, `{"data":{"k":"Mg=="}}`)
	waitFor(t, p.up, made, has(made, "2"))

	// Another name moves the Secret.
	moved := secret(p.upNS, "moved", "")
	patch(t, p.down, source, `{"metadata":{"annotations":{"`+importsecrets.To+`":"`+p.upNS+`/moved"}}}`)
	waitFor(t, p.up, moved, has(moved, "2"))
	fleettest.Gone(t, p.up, made)

	// An immutable Secret and another type are made again.
	patch(t, p.down, source, `{"immutable":true}`)
	waitFor(t, p.up, moved, func() error { return expect(moved.Immutable != nil && *moved.Immutable, true) })
	must(t, p.down.Delete(t.Context(), source))
	again := imported(p, "a", p.upNS+"/moved", "3")
	again.Type = "example.com/other"
	create(t, p.down, again)
	waitFor(t, p.up, moved, func() error {
		return expect([]any{moved.Type, string(moved.Data["k"])}, []any{"example.com/other", "3"})
	})

	// Without the annotation, the Secret is not imported.
	patch(t, p.down, again, `{"metadata":{"annotations":null}}`)
	fleettest.Gone(t, p.up, moved)
	patch(t, p.down, again, `{"metadata":{"annotations":{"`+importsecrets.To+`":"`+p.upNS+`/moved"}}}`)
	waitFor(t, p.up, moved, has(moved, "3"))
	must(t, p.down.Delete(t.Context(), again))
	fleettest.Gone(t, p.up, moved)

	unchanged(t, p.up, theirs)
	var all corev1.SecretList
	must(t, p.up.List(t.Context(), &all))
	for i := range all.Items {
		if s := &all.Items[i]; s.Namespace == p.upNS || s.Namespace == created {
			must(t, expect(s.Name, "theirs"))
		}
	}
}

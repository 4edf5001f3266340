// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
)

// A request for an informer succeeds while the lists of the informer fail. It ends only the Block of a type that the
// remote did not serve: the reflector repeats the failed list only after its backoff.
func TestCache_InformerOfABlockedType(t *testing.T) {
	t.Parallel()
	blocks := map[string]BlockCause{}
	o := someOptions(t.Context(), nil, nil)
	o.Blocked = func(what string, why Block) { blocks[what] = why.Cause }
	c := &selection{budget: &budget{options: o}}
	watchFailed := func(what string, err error) {
		c.watchFailed(t.Context(), toolscache.NewReflectorWithOptions(nil, nil, nil, toolscache.ReflectorOptions{TypeDescription: what}), err)
	}
	expect := func(when string, want map[string]BlockCause) {
		t.Helper()
		if !maps.Equal(blocks, want) {
			t.Errorf("%s: got blocks %v, want %v", when, blocks, want)
		}
	}

	watchFailed("Pod", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil))
	c.noteNoMatch("Tunnel", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Tunnel"}})
	expect("after the failures", map[string]BlockCause{"Pod": Denied, "Tunnel": Missing})

	c.noteNoMatch("Pod", nil)
	c.noteNoMatch("Tunnel", nil)
	expect("with informers", map[string]BlockCause{"Pod": Denied, "Tunnel": 0})

	watchFailed("Tunnel", apierrors.NewForbidden(schema.GroupResource{Resource: "tunnels"}, "", nil))
	c.noteNoMatch("Tunnel", nil)
	expect("after another failure", map[string]BlockCause{"Pod": Denied, "Tunnel": Denied})
}

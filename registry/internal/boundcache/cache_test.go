// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"maps"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A request for an informer succeeds while the lists of the informer fail. It ends only the Block of a type that the
// remote did not serve: the reflector repeats the failed list only after its backoff.
func TestCache_InformerOfABlockedType(t *testing.T) {
	t.Parallel()
	blocks := map[string]BlockCause{}
	o := someOptions(t.Context(), nil, nil)
	o.Blocked = func(what string, why Block) { blocks[what] = why.Cause }
	c := &Cache{options: o}
	expect := func(when string, want map[string]BlockCause) {
		t.Helper()
		if !maps.Equal(blocks, want) {
			t.Errorf("%s: got blocks %v, want %v", when, blocks, want)
		}
	}

	c.watchFailed("Pod", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil))
	c.noteNoMatch("Tunnel", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Tunnel"}})
	expect("after the failures", map[string]BlockCause{"Pod": Denied, "Tunnel": Missing})

	c.noteNoMatch("Pod", nil)
	c.noteNoMatch("Tunnel", nil)
	expect("with informers", map[string]BlockCause{"Pod": Denied, "Tunnel": 0})

	c.watchFailed("Tunnel", apierrors.NewForbidden(schema.GroupResource{Resource: "tunnels"}, "", nil))
	c.noteNoMatch("Tunnel", nil)
	expect("after another failure", map[string]BlockCause{"Pod": Denied, "Tunnel": Denied})
}

var must = testkit.Must

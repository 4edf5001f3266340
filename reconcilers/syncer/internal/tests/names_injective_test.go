// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/clusterfx/clusterfx/reconcilers/syncer/internal/names"
)

// original is an upstream object. cluster marks an object without a namespace; namespace is then that of the tenant.
type original struct {
	name, namespace, tenant string
	cluster                 bool
}

func (o original) candidates() []string {
	if o.cluster {
		return names.OfClusterScoped("vcluster", o.name, o.namespace, o.tenant)
	}
	return names.OfNamespaced(o.name, o.namespace, o.tenant)
}

func (o original) unique() string {
	if o.cluster {
		return names.UniqueClusterScoped("vcluster", o.name, o.namespace, o.tenant)
	}
	return names.UniqueNamespaced(o.name, o.namespace, o.tenant)
}

// TestCandidatesOfAnyNames tests the candidates of objects whose names consist of the pieces that make concatenations
// ambiguous.
// Promise: names that collide: a second name with a hash; reversible; at most 63 or 253 bytes.
func TestCandidatesOfAnyNames(t *testing.T) {
	t.Parallel()
	label := rapid.Custom(func(t *rapid.T) string {
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"x", "a", "b", "-", "x-x", "-x-", "vc1", strings.Repeat("a", 52)}), 1, 6).Draw(t, "pieces")
		text := strings.Trim(strings.Join(pieces, ""), "-")
		return strings.TrimRight((text + "a")[:min(len(text)+1, 63)], "-")
	})
	subdomain := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(label, 1, 4).Draw(t, "labels"), ".")
	})
	object := rapid.Custom(func(t *rapid.T) original {
		return original{subdomain.Draw(t, "name"), label.Draw(t, "namespace"), label.Draw(t, "tenant"), rapid.Bool().Draw(t, "cluster")}
	})
	rapid.Check(t, func(t *rapid.T) {
		one, other := object.Draw(t, "one"), object.Draw(t, "other")
		all := one.candidates()
		if len(all) == 0 || all[len(all)-1] != one.unique() {
			t.Fatalf("candidates %q do not end with %q", all, one.unique())
		}
		for _, name := range all {
			if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 || len(name) > names.MaxLength {
				t.Fatalf("%q of %d bytes: %v", name, len(name), problems)
			}
		}
		if one != other {
			for _, name := range other.candidates() {
				if slices.Contains(all, name) {
					t.Fatalf("%+v and %+v share %q", one, other, name)
				}
			}
		}
	})
}

// TestCollisionOfTheHash finds two objects whose published names collide: about 1.3 million names that begin with the same 52
// bytes have a pair with the same 40 bits.
func TestCollisionOfTheHash(t *testing.T) {
	t.Parallel()
	one, other := collision(t)
	first, second := names.OfNamespaced(one, "default", "vc1"), names.OfNamespaced(other, "default", "vc1")
	if one == other || first[0] != second[0] {
		t.Fatalf("%s and %s have the first names %s and %s", one, other, first[0], second[0])
	}
	if len(first) != 2 || len(second) != 2 || first[1] == second[1] {
		t.Fatalf("%s and %s have the names %s and %s", one, other, first, second)
	}
}

// collision returns two names with the same published form.
func collision(t *testing.T) (one, other string) {
	t.Helper()
	const name, most = "%s%07x", 8_000_000
	prefix := strings.Repeat("a", 52)
	seen := make(map[uint64]uint32, 2_000_000)
	text := []byte(fmt.Sprintf(name, prefix, 0) + "-x-default-x-vc1")
	for i := range uint32(most) {
		for digit := range 7 {
			text[58-digit] = "0123456789abcdef"[i>>(4*digit)&15]
		}
		sum := sha256.Sum256(text)
		bits := binary.BigEndian.Uint64(sum[:]) >> 24
		if before, found := seen[bits]; found {
			return fmt.Sprintf(name, prefix, before), fmt.Sprintf(name, prefix, i)
		}
		seen[bits] = i
	}
	t.Fatalf("%d names without a collision of 40 bits", most)
	return "", ""
}

func BenchmarkOfNamespaced(b *testing.B) {
	for name, object := range map[string]original{
		"Readable": {"nginx", "default", "vc1", false},
		"Hashed":   {strings.Repeat("a", 253), "default", "vc1", false},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				object.candidates()
			}
		})
	}
}

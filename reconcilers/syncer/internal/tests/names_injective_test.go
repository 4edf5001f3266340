// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
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
			if err := names.Valid(name, names.Subdomain); err != nil || len(name) > names.MaxLength {
				t.Fatalf("%q of %d bytes: %v", name, len(name), err)
			}
		}
		if one != other {
			for _, name := range other.candidates() {
				if slices.Contains(all, name) {
					t.Fatalf("%+v and %+v share %q", one, other, name)
				}
			}
		}
		if one.cluster {
			return
		}
		readable := one.name + "-x-" + one.namespace + "-x-" + one.tenant
		name, namespace, ok := names.ParseReadable(all[0], one.tenant)
		if ok != (all[0] == readable) || ok && (name != one.name || namespace != one.namespace) {
			t.Fatalf("%q of %+v is parsed as %q, %q, %t", all[0], one, name, namespace, ok)
		}
	})
}

// TestMillionNames gives each of more than a million objects the first of its candidates that is free, as a caller does.
func TestMillionNames(t *testing.T) {
	t.Parallel()
	fleettest.Slow(t, "./reconcilers/syncer/internal/tests TestCandidatesOfAnyNames")
	const rounds, most = 72_000, 1_200_000
	// Arrays, unlike strings, are no work for the garbage collector.
	taken := make(map[[names.MaxLength]byte]struct{}, most)
	digits := make(map[[22]byte]struct{}, most)
	second := 0
	random := rand.New(rand.NewPCG(1, 2))
	for i := range rounds {
		for _, o := range objectsOf(i, random) {
			all := o.candidates()
			free := slices.IndexFunc(all, func(name string) bool { _, is := taken[array(name)]; return !is })
			if free < 0 {
				t.Fatalf("%+v gets none of the names %q", o, all)
			}
			if free > 0 {
				second++
			}
			if problem := problemOf(all[free]); problem != "" {
				t.Fatalf("%q of %+v: %s", all[free], o, problem)
			}
			taken[array(all[free])] = struct{}{}
			unique := all[len(all)-1]
			digits[[22]byte([]byte(unique[len(unique)-22:]))] = struct{}{}
		}
	}
	if len(taken) < 1_000_000 || len(digits) != len(taken) {
		t.Errorf("%d objects, %d different digits of unique forms", len(taken), len(digits))
	}
	t.Logf("%d objects; %d of them get their second name", len(taken), second)
}

func array(name string) (a [names.MaxLength]byte) {
	copy(a[:], name)
	return a
}

// problemOf is Valid for subdomains, written without regular expressions: a million names are checked in the time of a few
// thousand.
func problemOf(name string) string {
	if len(name) == 0 || len(name) > names.MaxLength {
		return "length"
	}
	edge := true // The character before is the beginning or a dot.
	for i := range len(name) {
		c := name[i]
		alphanumeric := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		last := i == len(name)-1 || name[i+1] == '.'
		if !alphanumeric && (edge || c != '-' && c != '.' || c == '-' && last || c == '.' && i == len(name)-1) {
			return "character " + strconv.Itoa(i)
		}
		edge = c == '.'
	}
	return ""
}

// objectsOf returns objects of one round, all of which differ from those of other rounds. All share one downstream cluster.
func objectsOf(round int, random *rand.Rand) []original {
	id := strconv.FormatInt(int64(round), 36)
	long := strings.Repeat("a", 52)
	all := []original{
		// Plain names.
		{"app-" + id, "ns-" + strconv.Itoa(round%16), "vc1", false},
		// A common prefix that is cut, and lengths from 63 to 253 bytes.
		{long + strings.Repeat("b", round%191) + "0" + pad(id), "default", "vc1", false},
		{long[1:] + "." + strings.Repeat("b", round%191) + "0" + pad(id), "default", "vc1", false},
		{strings.Repeat("a.", 26) + strings.Repeat("b", round%191) + "0" + pad(id), "default", "vc1", false},
		// Names that look like the names of copies, as those of a tenant of a tenant do.
		{names.Namespaced("app-"+id, "ns", "vc1"), "host", "vc1", false},
		{names.UniqueNamespaced("app-"+id, "ns", "vc1"), "host", "vc1", false},
		{names.Namespaced(long+pad(id), "default", "vc1"), "host", "vc1", false},
	}
	// Equal concatenations: one list of words, split at each place, for namespaced objects and for others.
	words := []string{"q" + id}
	for range 2 + random.IntN(3) {
		words = append(words, []string{"x", "b", "c", "vc1"}[random.IntN(4)])
	}
	if round%4 == 0 {
		words[0] += long
	}
	for split := 1; split < len(words); split++ {
		name, namespace := strings.Join(words[:split], "-x-"), strings.Join(words[split:], "-x-")
		all = append(all, original{name, namespace, "vc1", false}, original{name, namespace, "vc1", true})
		if split+1 < len(words) {
			tenant := strings.Join(words[split+1:], "-x-") + "-x-vc1"
			all = append(all, original{name, words[split], tenant, false})
		}
	}
	return all
}

func pad(id string) string { return strings.Repeat("0", 11-len(id)) + id }

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

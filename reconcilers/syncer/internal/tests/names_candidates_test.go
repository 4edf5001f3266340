// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/internal/names"
)

// TestCandidatesOfNamespaced tests which objects get the published name. The word unique means the unique form.
func TestCandidatesOfNamespaced(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 52)
	for _, test := range []struct {
		what, name, namespace, tenant string
		first                         string
	}{
		{"readable", "nginx", "default", "vc1", "nginx-x-default-x-vc1"},
		{"readable with dots", "my.config", "default", "vc1", "my.config-x-default-x-vc1"},
		{"ambiguous namespace", "a", "b-x-c", "vc1", "unique"},
		{"ambiguous name", "a-x-b", "c", "vc1", "unique"},
		{"overlap behind the name", "a-x", "c", "vc1", "unique"},
		{"overlap before the namespace", "a", "x-c", "vc1", "unique"},
		{"overlap behind the namespace", "a", "c-x", "vc1", "unique"},
		{"overlap before the tenant", "a", "c", "x-vc1", "unique"},
		{"namespace x", "a", "x", "vc1", "unique"},
		{"name x", "x", "c", "vc1", "x-x-c-x-vc1"},
		{"tenant with a separator", "a", "b", "c-x-d", "a-x-b-x-c-x-d"},
		{"ambiguous beside a tenant with a separator", "a-x-b", "c", "d-x-e", "unique"},
		{"hashed", long + "bcdefghi", "default", "vc1", names.Namespaced(long+"bcdefghi", "default", "vc1")},
		{"hashed and ambiguous", long + "-x-b", "c", "vc1", "unique"},
		{"hashed with a dot at the cut", long[1:] + ".bcdefghijklmnop", "default", "vc1", long[1:] + "-65caa12deb"},
		{"RBAC", "system:node", "default", "vc1", "system:node-x-default-x-vc1"},
		{"RBAC with a dot before a hyphen", "a.-b", "default", "vc1", "unique"},
		{"RBAC with a slash", "a/b", "default", "vc1", "unique"},
		{"RBAC with a character at the cut", long[1:] + "ü" + long, "default", "vc1", "unique"},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			unique := names.UniqueNamespaced(test.name, test.namespace, test.tenant)
			want := []string{test.first, unique}
			if test.first == "unique" {
				want = want[1:]
			}
			testkit.Equal(t, names.OfNamespaced(test.name, test.namespace, test.tenant), want, "candidates")
		})
	}
	if got := names.OfNamespaced("", "default", "vc1"); got != nil {
		t.Errorf("no name has the candidates %q", got)
	}
}

func TestCandidatesOfClusterScoped(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what, prefix, name, namespace, tenant string
		first                                 string
	}{
		{"readable", "vcluster", "pv1", "host-ns", "vc1", "vcluster-pv1-x-host-ns-x-vc1"},
		{"without a namespace", "vcluster", "pv1", "", "vc1", "vcluster-pv1-x--x-vc1"},
		{"name x", "vcluster", "x", "host-ns", "vc1", "unique"},
		{"name that begins with x", "vcluster", "x-a", "host-ns", "vc1", "unique"},
		{"ambiguous name", "vcluster", "a-x-b", "c", "vc1", "unique"},
		{"prefix with a separator", "a-x-b", "pv1", "c", "vc1", "a-x-b-pv1-x-c-x-vc1"},
		{"overlap behind the prefix", "a-x", "pv1", "c", "vc1", "unique"},
		{"RBAC", "vcluster", "system:node", "c", "vc1", "vcluster-system:node-x-c-x-vc1"},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			want := []string{test.first, names.UniqueClusterScoped(test.prefix, test.name, test.namespace, test.tenant)}
			if test.first == "unique" {
				want = want[1:]
			}
			testkit.Equal(t, names.OfClusterScoped(test.prefix, test.name, test.namespace, test.tenant), want, "candidates")
		})
	}
	if got := names.OfClusterScoped("vcluster", "", "host-ns", "vc1"); got != nil {
		t.Errorf("no name has the candidates %q", got)
	}
}

// A unique name that is cut keeps its digits, and is a label.
func TestShortenUnique(t *testing.T) {
	t.Parallel()
	for _, readable := range []string{"nginx", strings.Repeat("a", 29), strings.Repeat("a", 30), strings.Repeat("a", 28) + "..b", strings.Repeat("a", 60)} {
		whole := names.UniqueNamespaced(readable, "default", "vc1")
		got := names.ShortenUnique(whole, 52)
		if len(got) > 52 || got[len(got)-22:] != whole[len(whole)-22:] || len(validation.IsDNS1123Label(got)) > 0 {
			t.Errorf("%s becomes %s", whole, got)
		}
		if len(whole) <= 52 && got != whole {
			t.Errorf("%s fits, and becomes %s", whole, got)
		}
	}
}

// TestUnique tests the readable part, and that each part of the tuple makes a difference, also if the concatenation of all
// parts is the same.
func TestUnique(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"nginx":                             "nginx",
		"my.config":                         "my-config",
		"System:Node":                       "system-node",
		"-.a":                               "a",
		"":                                  "x",
		"::":                                "x",
		"größe":                             "gr----e",
		strings.Repeat("a", 41):             strings.Repeat("a", 40),
		strings.Repeat("a", 39) + ".b":      strings.Repeat("a", 39),
		strings.Repeat("a", 39) + "." + "ü": strings.Repeat("a", 39),
	} {
		got := names.UniqueNamespaced(name, "default", "vc1")
		if readable, digits := got[:len(got)-23], got[len(got)-22:]; readable != want || strings.Trim(digits, "0123456789abcdef") != "" {
			t.Errorf("%q: got %q, want %q before 22 hex digits", name, got, want)
		}
		testkit.Equal(t, len(validation.IsDNS1123Label(got)), 0, got)
	}
	digits := map[string]string{}
	for what, name := range map[string]string{
		"ab/c/d":                   names.UniqueNamespaced("ab", "c", "d"),
		"a/bc/d":                   names.UniqueNamespaced("a", "bc", "d"),
		"a/b/cd":                   names.UniqueNamespaced("a", "b", "cd"),
		"abcd//":                   names.UniqueNamespaced("abcd", "", ""),
		"cluster ab/c/d":           names.UniqueClusterScoped("p", "ab", "c", "d"),
		"cluster ab/c/d, prefix q": names.UniqueClusterScoped("q", "ab", "c", "d"),
		"cluster without prefix":   names.UniqueClusterScoped("", "ab", "c", "d"),
	} {
		end := name[len(name)-22:]
		if other, taken := digits[end]; taken {
			t.Errorf("%s and %s have the digits %s", what, other, end)
		}
		digits[end] = what
	}
}

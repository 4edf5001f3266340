// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/internal/names"
)

// TestPublishedNames has the vectors that are published for the names of vcluster.
// Promise: names: the published names, where they are unambiguous.
func TestPublishedNames(t *testing.T) {
	t.Parallel()
	sixty, fiftyTwo, fiftyOne := strings.Repeat("a", 60), strings.Repeat("a", 52), strings.Repeat("a", 51)
	full := strings.Repeat("a", 63-len("-x-default-x-vc1"))
	for _, test := range []struct {
		name      string
		got, want string
		length    int
	}{
		{"NamespacedReadable", names.Namespaced("nginx", "default", "vc1"), "nginx-x-default-x-vc1", 21},
		{"NamespacedHashed", names.Namespaced(sixty, "default", "vc1"), fiftyTwo + "-787aba210b", 63},
		{"NamespacedDotBeforeHash", names.Namespaced(fiftyOne+".bcdefghijklmnop", "default", "vc1"), fiftyOne + "-65caa12deb", 62},
		{"NamespacedExactly63", names.Namespaced(full, "default", "vc1"), full + "-x-default-x-vc1", 63},
		{"ClusterScopedReadable", names.ClusterScoped("vcluster", "pv1", "host-ns", "vc1"), "vcluster-pv1-x-host-ns-x-vc1", 28},
		{"NotInjectiveFirst", names.Namespaced("a", "b-x-c", "vc1"), "a-x-b-x-c-x-vc1", 15},
		{"NotInjectiveSecond", names.Namespaced("a-x-b", "c", "vc1"), "a-x-b-x-c-x-vc1", 15},
		{"LabelKeyNamespaced", names.LabelKey("vcluster.loft.sh", "app", "vc1", ""), "vcluster.loft.sh/label-vc1-x-a172cedcae", 39},
		{
			"LabelKeyClusterScoped", names.LabelKey("vcluster.loft.sh", "app", "vc1", "host-ns"),
			"vcluster.loft.sh/label-vc1-host-ns-x-a172cedcae", 47,
		},
		{"NamespacedEmpty", names.Namespaced("", "default", "vc1"), "", 0},
		{"ClusterScopedEmpty", names.ClusterScoped("vcluster", "", "host-ns", "vc1"), "", 0},
		{"ConcatDotBeforeHyphen", names.Concat("a.", "b.", "c"), "a-b-c", 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.got != test.want || len(test.got) != test.length {
				t.Errorf("got %q of %d bytes, want %q of %d bytes", test.got, len(test.got), test.want, test.length)
			}
		})
	}
}

// TestPublishedLimits tests the lengths at which names are cut, with digests that sha256sum has computed.
func TestPublishedLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, got, want string }{
		{"ConcatOf64", names.Concat(strings.Repeat("a", 64)), strings.Repeat("a", 52) + "-ffe054fe7a"},
	} {
		testkit.Equal(t, test.got, test.want, test.name)
	}
}

// TestLabelKeyIsValid tests that also prefixes that the published form would cut make valid keys, and different ones.
func TestLabelKeyIsValid(t *testing.T) {
	t.Parallel()
	for length := 1; length <= 253; length++ {
		prefix := strings.Repeat("abcd.efgh.", 26)[:length]
		if strings.HasSuffix(prefix, ".") {
			continue
		}
		for _, tenant := range []string{"vc1", strings.Repeat("t", 63)} {
			for _, namespace := range []string{"", "ns", strings.Repeat("n", 63)} {
				app, tier := names.LabelKey(prefix, "app", tenant, namespace), names.LabelKey(prefix, "tier", tenant, namespace)
				if problems := validation.IsQualifiedName(app); len(problems) > 0 {
					t.Errorf("%q: %v", app, problems)
				}
				if app == tier || !strings.HasPrefix(app, prefix+"/label") {
					t.Errorf("prefix %q: keys %q and %q", prefix, app, tier)
				}
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
)

// Of what Go writes when a goroutine ends the process, only the names in the labels of that goroutine count.
func TestReadCrash(t *testing.T) {
	t.Parallel()
	const guilty = "goroutine 34 [running labels:{\"cluster\": \"one\", \"epoch\": \"1\", \"module\": \"quota\"}]:\nmain.f()\n\n" +
		"goroutine 1 [select labels:{\"cluster\": \"two\"}]:\n"
	const forged = "\n\tgoroutine 1 [running labels:{\"cluster\": \"two\"}]:\n\n"
	one := cluster.Crash{Cluster: "one", Module: "quota", Recorded: true}
	for name, tc := range map[string]struct {
		text string
		want cluster.Crash
	}{
		"a panic":                    {"panic: " + "oh" + forged + guilty, one},
		"lines before it":            {"runtime: goroutine stack exceeds\nfatal error: stack overflow\n\nruntime stack:\nf()\n\n" + guilty, one},
		"a map of two goroutines":    {"fatal error: concurrent map writes\n\n" + guilty, one},
		"a nil pointer":              {"panic: runtime error: invalid memory address or nil pointer dereference\n[signal SIGSEGV]\n\n" + guilty, one},
		"without a module":           {"panic: oh\n\ngoroutine 34 [running labels:{\"epoch\": \"1\", \"cluster\": \"one\"}]:\n", cluster.Crash{Cluster: "one", Recorded: true}},
		"a goroutine of no app":      {"panic: oh\n\ngoroutine 34 [running]:\n" + guilty, cluster.Crash{}},
		"a hub part":                 {"panic: oh\n\ngoroutine 34 [running labels:{\"module\": \"quota\"}]:\n", cluster.Crash{Module: "quota"}},
		"no memory":                  {"fatal error: runtime: out of memory\n\n" + guilty, cluster.Crash{}},
		"SIGQUIT":                    {"SIGQUIT: quit\nPC=0x1\n\n" + guilty, cluster.Crash{}},
		"a name that no Cluster has": {"panic: oh\n\ngoroutine 34 [running labels:{\"cluster\": \"a\\\"b\"}]:\n", cluster.Crash{}},
		"nothing":                    {"", cluster.Crash{}},
	} {
		testkit.Equal(t, readCrash(tc.text), tc.want, name)
	}
}

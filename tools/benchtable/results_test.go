// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"testing"
)

// The table has the median and the range of each metric of the results of all rounds, in the order of the commands.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	floor := `cd ` + dir + `; echo x >>rounds; echo "pkg: example"; echo "BenchmarkEngage/remotes=2/floor-2 1 99 ns/op $(wc -l <rounds).5 s/all 7 KiB"`
	ours := `echo "BenchmarkEngage/remotes=2/registry-2   1   99 ns/op   2.25 s/all"`
	var out strings.Builder
	if err := run(t.Context(), []string{"-runs", "3", floor, ours}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	const want = `| median (range) | floor | registry |
|---|---|---|
| s/all | 2.5 (1.5 to 3.5) | 2.25 (2.25 to 2.25) |
| KiB | 7 (7 to 7) |  |
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestRun_Refuses(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"no command": {}, "no run": {"-runs", "0", "true"}, "an unknown flag": {"-x"},
		"a command that fails": {"false"}, "no results": {"echo nothing"},
	} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

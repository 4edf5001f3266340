// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
)

// asChild makes the test binary print what a Pace does, since the environment of the collector is that of a whole process.
const asChild = "CLUSTERFX_TEST_PACE"

func printPace() {
	pace := process.NewPace()
	var all []int
	for _, remotes := range []int{0, 9, 10, 500, 10, 9, 0} {
		pace.Starting(remotes)
		percent := debug.SetGCPercent(100)
		debug.SetGCPercent(percent)
		all = append(all, percent)
	}
	fmt.Println(process.MemoryLimit(), all)
}

// The collector runs less often while many remotes start, if there is a memory limit and the environment has no GOGC.
func TestPace(t *testing.T) {
	t.Parallel()
	const changes, stays = "[100 100 400 400 400 100 100]", "[100 100 100 100 100 100 100]"
	for name, tc := range map[string]struct {
		environment []string
		want        string
	}{
		"a limit":              {[]string{"GOMEMLIMIT=1GiB"}, "1073741824 " + changes},
		"a limit and GOGC":     {[]string{"GOMEMLIMIT=1GiB", "GOGC=200"}, "1073741824 [200 200 200 200 200 200 200]"},
		"GOGC is off":          {[]string{"GOMEMLIMIT=1GiB", "GOGC=off"}, "1073741824 [-1 -1 -1 -1 -1 -1 -1]"},
		"the limit is off":     {[]string{"GOMEMLIMIT=off"}, "0 " + stays},
		"what the cgroup says": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			child := exec.CommandContext(t.Context(), os.Args[0])
			child.Env = append(tc.environment, asChild+"=yes")
			out, err := child.Output() // A binary with coverage writes a warning to the other output.
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			got := strings.TrimSpace(string(out))
			if tc.want == "" { // It depends on this machine: with a limit the pace changes, without one it does not.
				tc.want = changes
				if strings.HasPrefix(got, "0 ") {
					tc.want = stays
				}
				_, got, _ = strings.Cut(got, " ")
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestPace_Zero(t *testing.T) { //nolint:paralleltest // It reads GOGC of the process.
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	var none process.Pace
	none.Starting(1000)
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("the zero Pace has set GOGC to %d", got)
	}
}
